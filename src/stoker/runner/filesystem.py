"""Which file systems can hold a spool or a database: local ones.

On a network file system flock and link lie now and then, so that nothing here could be promised.
Read from mountinfo: it names the type, and works for bind mounts and FUSE alike.
"""

from __future__ import annotations

import os
import re

_NETWORK = frozenset(
    (
        "9p", "acfs", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "gfs", "gfs2",
        "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4", "ocfs2", "orangefs",
        "panfs", "prl_fs", "pvfs2", "smb3", "smbfs", "vboxsf", "vmhgfs", "wekafs",
    )
)  # fmt: skip
_NETWORK_FUSE = re.compile(
    r"fuse\.(sshfs|ceph|cephfs|glusterfs|s3fs|rclone|juicefs|davfs2?|gcsfuse|goofys"
    r"|moosefs|mfs|lizardfs|curlftpfs|vmhgfs-fuse|smbnetfs|seaweedfs|cvmfs2?|alluxio.*)"
)


def network_filesystem(path: str) -> str:
    """The type of the network file system that holds `path` (which need not exist), or ""."""
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
            kind = mounted_type(os.path.realpath(path), file.read())
    except OSError:
        return ""
    return kind if kind in _NETWORK or _NETWORK_FUSE.fullmatch(kind) else ""


def mounted_type(path: str, mountinfo: str) -> str:
    """The type of the mount that an absolute, resolved path is on; "" when none matches."""
    best, kind = "", ""
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        fields, details = before.split(" "), after.split(" ")
        if len(fields) < 5 or not details[0]:
            continue
        point = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), fields[4])
        # A later mount on the same point hides the earlier one, hence >=.
        if _is_below(path, point) and len(point) >= len(best):
            best, kind = point, details[0]
    return kind


def _is_below(path: str, point: str) -> bool:
    return point in ("/", path) or path.startswith(point + "/")
