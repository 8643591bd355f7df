"""Which processes belong to a part."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker.runner.ending import Snapshot, marker, supervisors
from stoker.runner.identity import Process, start_time
from stoker.runner.protocol import MARKER
from stoker.runner.record import claim
from stoker.runner.senses import part_of
from tests.helpers.runner_client import wait_until

KEY = "feedbeef.0"


@pytest.fixture
def marked() -> Iterator[subprocess.Popen[bytes]]:
    """A process with the marker and a child without any environment."""
    process = subprocess.Popen(
        ["sh", "-c", "env -i sleep 100 & wait"],
        env={"PATH": os.environ["PATH"], MARKER: KEY},
        start_new_session=True,
    )
    wait_until(lambda: len(Snapshot().descendants([process.pid])) == 1)
    yield process
    os.killpg(process.pid, 9)
    process.wait()


def test_the_marker_and_what_descends_from_it(marked: subprocess.Popen[bytes]) -> None:
    looked = Snapshot()
    (child,) = looked.descendants([marked.pid])
    wait_until(lambda: marker(child) == "")
    assert marker(marked.pid) == KEY
    assert set(Snapshot().left(KEY, grouped=())) == {marked.pid, child}
    assert not looked.left("feedbeef.1", grouped=())
    assert not looked.left(KEY, grouped=(), spare=(marked.pid, child))


def test_a_session_counts_only_with_its_own_leader(marked: subprocess.Popen[bytes]) -> None:
    looked = Snapshot()
    leader = Process(marked.pid, start_time(marked.pid))
    assert marked.pid in looked.of_session(leader)
    assert not looked.of_session(Process(marked.pid, leader.start + 1))


def test_a_supervisor_is_known_by_its_open_record_even_if_deleted(tmp_path: Path) -> None:
    folder = os.open(tmp_path, os.O_RDONLY)
    journal = claim(folder, KEY, b'{"number":1')
    assert journal is not None
    assert set(supervisors(KEY, spare=())) == {os.getpid()}
    (tmp_path / f"{KEY}.rec").unlink()
    assert set(supervisors(KEY, spare=())) == {os.getpid()}
    assert not supervisors("feedbeef.1", spare=())
    assert not supervisors(KEY, spare=(os.getpid(),))
    os.close(journal.fd)


def test_a_process_belongs_to_a_part_only_while_the_part_lives(
    marked: subprocess.Popen[bytes],
) -> None:
    (child,) = Snapshot().descendants([marked.pid])
    assert part_of(child, {1234567: KEY}) == KEY
    assert part_of(child, {marked.pid: "other.0"}) == "other.0"
    assert part_of(child, {}) == ""
    assert part_of(os.getpid(), {1234567: KEY}) == ""
