"""Network file systems are told from local ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.runner import filesystem
from stoker.runner.filesystem import mounted_type, network_filesystem

MOUNTS = """\
22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 22 0:5 / /home rw shared:1 - nfs4 server:/home rw
31 30 0:6 / /home/local rw - xfs /dev/sdb rw
32 22 0:7 / /data\\040of\\040all rw - fuse.sshfs u@h:/ rw
33 22 0:8 / /over rw - nfs server:/x rw
34 22 0:9 / /over rw - tmpfs tmpfs rw
35 22 0:10 / /fuse rw - fuse.gocryptfs /x rw
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/lib", "ext4"),
        ("/home", "nfs4"),
        ("/home/ana", "nfs4"),
        ("/homestead", "ext4"),
        ("/home/local/spool", "xfs"),
        ("/data of all/x", "fuse.sshfs"),
        ("/over/x", "tmpfs"),
    ],
)
def test_the_innermost_and_latest_mount_counts(path: str, kind: str) -> None:
    assert mounted_type(path, MOUNTS) == kind


@pytest.mark.parametrize(
    ("kind", "answer"),
    [("nfs", "nfs"), ("fuse.sshfs", "fuse.sshfs"), ("ext4", ""), ("fuse.gocryptfs", "")],
)
def test_only_network_types_are_named(
    kind: str, answer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filesystem, "mounted_type", lambda path, text: kind)
    assert network_filesystem("/anywhere") == answer


def test_this_machine(tmp_path: Path) -> None:
    assert network_filesystem(str(tmp_path / "not" / "yet" / "there")) == ""
