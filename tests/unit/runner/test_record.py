"""Records: the claim is one atomic step, a torn line does not count, death is never inferred."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stoker.runner.identity import Process, start_time
from stoker.runner.lines import pack, unpack
from stoker.runner.protocol import Exit
from stoker.runner.record import abandon, claim, look

BODY = b'{"line":"claim","format":1,"boot":"b","number":7'


@pytest.fixture
def dir_fd(tmp_path: Path) -> Iterator[int]:
    fd = os.open(tmp_path, os.O_RDONLY)
    yield fd
    os.close(fd)


def test_a_claim_is_held_from_the_moment_it_has_a_name(dir_fd: int, tmp_path: Path) -> None:
    journal = claim(dir_fd, "a.0", BODY)
    assert journal is not None
    found = look(dir_fd, "a.0")
    assert found is not None
    assert (found.is_held, found.number, found.child) == (True, 7, None)
    assert found.supervisor == Process(os.getpid(), start_time(os.getpid()))
    assert os.listdir(tmp_path) == ["a.0.rec"]
    os.close(journal.fd)
    free = look(dir_fd, "a.0")
    assert free is not None
    assert not free.is_held


def test_only_one_claim_succeeds(dir_fd: int, tmp_path: Path) -> None:
    first = claim(dir_fd, "a.0", BODY)
    assert claim(dir_fd, "a.0", BODY) is None
    assert first is not None
    os.close(first.fd)
    assert claim(dir_fd, "a.0", BODY) is None
    assert os.listdir(tmp_path) == ["a.0.rec"]


def test_a_claim_whose_temporary_file_was_tidied_away_is_made_again(
    dir_fd: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rescan may come between the making of the file and the lock on it."""
    real = fcntl.flock
    swept: list[str] = []

    def sweep_first(fd: int, how: int) -> None:
        if not swept:
            for path in tmp_path.glob("*.tmp"):
                swept.append(path.name)
                path.unlink()
        real(fd, how)

    monkeypatch.setattr(fcntl, "flock", sweep_first)
    journal = claim(dir_fd, "a.0", BODY)
    assert swept
    assert journal is not None
    assert os.listdir(tmp_path) == ["a.0.rec"]
    assert os.path.samestat(os.fstat(journal.fd), (tmp_path / "a.0.rec").stat())


def test_an_end_written_between_reading_and_probing_is_not_overlooked(
    dir_fd: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = claim(dir_fd, "a.0", BODY)
    assert journal is not None
    journal.begin(Process(1, 2), 3.0)
    real = fcntl.flock

    def end_first(fd: int, how: int) -> None:
        monkeypatch.setattr(fcntl, "flock", real)
        journal.finish(Exit("exit", code=0), dir_fd)
        os.close(journal.fd)
        real(fd, how)

    monkeypatch.setattr(fcntl, "flock", end_first)
    found = look(dir_fd, "a.0")
    assert found is not None
    assert found.exit is not None
    assert found.exit.code == 0


def test_the_exit_line_always_fits(dir_fd: int) -> None:
    journal = claim(dir_fd, "a.0", BODY + b',"task":"' + b"x" * 3000 + b'"')
    assert journal is not None
    status = os.fstat(journal.fd)
    size = status.st_size
    assert status.st_blocks * 512 >= size  # allocated, not merely long
    journal.begin(Process(1, 2), 3.0)
    journal.note_stuck("\x01" * 5000)
    journal.finish(Exit("exit", code=1, reason="r", detail="火" * 5000), dir_fd)
    assert os.fstat(journal.fd).st_size == size
    found = look(dir_fd, "a.0")
    assert found is not None
    assert found.exit is not None
    assert found.exit.detail.startswith("火")
    assert found.stuck


def test_a_claim_is_taken_back_only_if_it_is_ours(dir_fd: int, tmp_path: Path) -> None:
    journal = claim(dir_fd, "a.0", BODY)
    assert journal is not None
    (tmp_path / "a.0.rec").unlink()
    other = claim(dir_fd, "a.0", BODY)
    assert other is not None
    abandon(dir_fd, "a.0", journal)
    assert (tmp_path / "a.0.rec").exists()
    abandon(dir_fd, "a.0", other)
    assert not (tmp_path / "a.0.rec").exists()
    abandon(dir_fd, "a.0", other)


def test_a_missing_record_and_a_missing_folder(dir_fd: int, tmp_path: Path) -> None:
    assert look(dir_fd, "a.0") is None
    tmp_path.rmdir()
    with pytest.raises(FileNotFoundError):
        claim(dir_fd, "a.0", BODY)


@pytest.mark.parametrize("cut", range(1, 40))
def test_a_torn_line_does_not_count(cut: int) -> None:
    facts: list[dict[str, Any]] = [{"line": "claim", "n": 1}, {"line": "exit", "code": 0}]
    raw = b"".join(pack(fact) for fact in facts)
    assert unpack(raw + bytes(100)) == facts
    torn = raw[: len(raw) - cut]
    last = len(pack(facts[1]))
    assert unpack(torn + bytes(100)) == (facts[:1] if cut <= last else unpack(torn))
    assert facts[1] not in unpack(torn)


def test_a_flipped_bit_does_not_count() -> None:
    raw = pack({"line": "exit", "code": 0})
    for place in range(len(raw)):
        damaged = raw[:place] + bytes([raw[place] ^ 1]) + raw[place + 1 :]
        assert unpack(damaged) == []
