"""Our own log: capped by a hole, read by offset, with a first and a last line."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker.runner import logfile
from stoker.runner.protocol import Exit, GpuHold, Incarnation, Launch

MIB = 1024 * 1024


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same cap with fewer bytes."""
    monkeypatch.setattr(logfile, "HEAD", 2 * MIB)
    monkeypatch.setattr(logfile, "TAIL", 3 * MIB)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[int]:
    fd = os.open(tmp_path / "log", os.O_RDWR | os.O_CREAT | os.O_APPEND)
    yield fd
    os.close(fd)


def block(number: int) -> bytes:
    """A MiB that says which it is, and has no zeros."""
    return (b"%07d\n" % number) * (MIB // 8)


def fill(fd: int, first: int, last: int) -> None:
    for number in range(first, last):
        os.write(fd, block(number))


def kept_mib(fd: int) -> float:
    return os.fstat(fd).st_blocks * 512 / MIB


def read_all(fd: int) -> dict[int, bytes]:
    """Every MiB that is kept, by its number."""
    offset, found = 0, b""
    pieces: dict[int, bytes] = {}
    while True:
        offset, found = logfile.read(fd, offset, MIB)
        if not found:
            return pieces
        pieces[offset // MIB] = found
        offset += len(found)


def test_the_cap_keeps_head_and_tail_and_every_offset(log: int) -> None:
    fill(log, 0, 20)
    logfile.cap(log)
    assert os.fstat(log).st_size == 20 * MIB
    assert kept_mib(log) < 6
    assert read_all(log) == {n: block(n) for n in (0, 1, 17, 18, 19)}


def test_nothing_is_dropped_below_the_cap(log: int) -> None:
    fill(log, 0, 5)
    logfile.cap(log, final=True)
    assert read_all(log) == {n: block(n) for n in range(5)}


def test_small_gains_wait_for_the_end(log: int) -> None:
    fill(log, 0, 12)  # 7 MiB too much
    logfile.cap(log)
    assert len(read_all(log)) == 12
    logfile.cap(log, final=True)
    assert len(read_all(log)) == 5


def test_a_later_cap_goes_on_where_the_last_one_ended(log: int) -> None:
    fill(log, 0, 20)
    logfile.cap(log)
    fill(log, 20, 27)
    logfile.cap(log)
    assert len(read_all(log)) == 12
    fill(log, 27, 28)
    logfile.cap(log)
    assert read_all(log) == {n: block(n) for n in (0, 1, 25, 26, 27)}


def test_capping_and_reading_leave_the_writers_position_alone(tmp_path: Path) -> None:
    # Without O_APPEND a moved position would make the command write in the wrong place.
    fd = os.open(tmp_path / "log", os.O_RDWR | os.O_CREAT)
    try:
        fill(fd, 0, 20)
        logfile.cap(fd)
        logfile.read(fd, 0, 10)
        logfile.tail(fd)
        assert os.lseek(fd, 0, os.SEEK_CUR) == 20 * MIB
    finally:
        os.close(fd)


def test_where_no_hole_can_be_punched_the_log_stays_whole(tmp_path: Path, log: int) -> None:
    fill(log, 0, 20)
    # A descriptor for reading is refused just as an unfit file system refuses.
    fd = os.open(tmp_path / "log", os.O_RDONLY)
    try:
        logfile.cap(fd)
    finally:
        os.close(fd)
    assert len(read_all(log)) == 20


def test_a_read_in_the_hole_says_where_the_data_goes_on(log: int) -> None:
    fill(log, 0, 20)
    logfile.cap(log)
    assert logfile.read(log, 5 * MIB + 3, 8) == (17 * MIB, b"0000017\n")


def test_a_read_stops_before_the_hole(log: int) -> None:
    fill(log, 0, 20)
    logfile.cap(log)
    offset, data = logfile.read(log, 2 * MIB - 16, 100)
    assert (offset, data) == (2 * MIB - 16, b"0000001\n" * 2)


def test_a_hole_punched_in_the_middle_of_a_read_is_not_read_as_zeros(
    log: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(log, 0, 20)
    real, calls = os.pread, []

    def late(fd: int, length: int, offset: int) -> bytes:
        calls.append(offset)
        if len(calls) == 1:
            logfile.cap(log)
        return real(fd, length, offset)

    monkeypatch.setattr(os, "pread", late)
    assert logfile.read(log, 5 * MIB, 8) == (17 * MIB, b"0000017\n")
    assert calls == [5 * MIB, 17 * MIB]


def test_no_byte_is_made_up_while_the_hole_grows_under_the_reader(log: int) -> None:
    def write_and_cap() -> None:
        for number in range(0, 60, 10):
            fill(log, number, number + 10)
            logfile.cap(log)

    writer = threading.Thread(target=write_and_cap)
    writer.start()
    offset = 0
    while writer.is_alive() or offset < os.fstat(log).st_size:
        offset, data = logfile.read(log, offset, MIB // 4)
        assert b"\0" not in data
        if data:
            assert data[: 8 - offset % 8].endswith(b"\n")
        offset += len(data)
    writer.join()
    assert offset == 60 * MIB


def test_zeros_that_were_written_are_data(log: int) -> None:
    os.write(log, b"a\0\0b")
    assert logfile.read(log, 0, 100) == (0, b"a\0\0b")


def test_a_read_at_or_beyond_the_end_is_empty(log: int) -> None:
    os.write(log, b"abc")
    assert logfile.read(log, 3, 10) == (3, b"")
    assert logfile.read(log, 99, 10) == (99, b"")
    assert logfile.read(log, 1, 1) == (1, b"b")
    assert logfile.read(log, 0, 0) == (0, b"")


def test_a_file_that_ends_in_a_hole_ends_there(log: int) -> None:
    os.write(log, block(0))
    os.ftruncate(log, 4 * MIB)
    assert logfile.read(log, 2 * MIB, 10) == (4 * MIB, b"")


def test_the_tail_is_the_last_64_kib(log: int) -> None:
    assert logfile.tail(log) == b""
    os.write(log, b"short\n")
    assert logfile.tail(log) == b"short\n"
    os.write(log, block(1) + b"end")
    assert logfile.tail(log) == block(1)[-65536 + 3 :] + b"end"


@pytest.fixture
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    yield monkeypatch
    monkeypatch.undo()
    time.tzset()


def a_launch(**fields: object) -> Launch:
    values: dict[str, object] = {
        "attempt": "a1",
        "rank": 0,
        "epoch": 1,
        "number": 1,
        "incarnation": Incarnation("boot", "spool"),
        "task": "17",
        "node": "node-a",
        "workdir": "/home/ana/project",
        **fields,
    }
    return Launch(**values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("CST-8", "2026-11-15 21:40:03 UTC+08:00"),
        ("IST-5:30", "2026-11-15 19:10:03 UTC+05:30"),
        ("NST3:30", "2026-11-15 10:10:03 UTC-03:30"),
        ("UTC0", "2026-11-15 13:40:03 UTC+00:00"),
    ],
)
def test_the_header_says_when_what_and_where(
    zone: pytest.MonkeyPatch, name: str, shown: str
) -> None:
    zone.setenv("TZ", name)
    time.tzset()
    launch = a_launch(gpus=[GpuHold(0, "GPU-a"), GpuHold(1, "GPU-b")])
    line = logfile.header(launch, 1794750003.7).decode()
    assert line == f"[stoker] {shown} · task 17 · node-a · GPU 0,1 · /home/ana/project\n"


def test_the_header_of_an_element_names_it() -> None:
    line = logfile.header(a_launch(env={"STOKER_ARRAY_INDEX": "3"}), 0.0).decode()
    assert " · task 17_3 · " in line


def test_a_header_is_one_line_whatever_the_folder_is_called() -> None:
    line = logfile.header(a_launch(workdir="/data/训练\n[stoker] forged\x1b[2J\udcff"), 0.0)
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert b"\x1b" not in line
    assert "训练".encode() in line
    assert b"no GPU" in line


@pytest.mark.parametrize(
    ("end", "words"),
    [
        (Exit("exit", code=0, ran_s=0.44), "finished with code 0 · ran 0.4 s"),
        (Exit("exit", code=3, ran_s=307), "failed with code 3 · ran 5 min 7 s"),
        (
            Exit("exit", code=1, reason="module_missing", detail="torch", ran_s=2),
            "failed with code 1 (module missing: torch) · ran 2.0 s",
        ),
        (
            Exit("exit", signal=11, reason="killed_by_signal", detail="SIGSEGV", ran_s=11_100),
            "killed by SIGSEGV · ran 3 h 5 min",
        ),
        (
            Exit("exit", signal=9, reason="memory_limit", detail="512", ran_s=1),
            "killed by SIGKILL (memory limit: 512) · ran 1.0 s",
        ),
        (Exit("exit", signal=50), "killed by signal 50 · ran 0.0 s"),
        (Exit("limit", signal=15, ran_s=180_000), "time limit reached · ran 2 d 2 h"),
        (Exit("cancel", code=0), "stopped on request · ran 0.0 s"),
        (
            Exit("refused", reason="command_not_found", detail="pyhton"),
            "could not start: command not found: pyhton · ran 0.0 s",
        ),
        (Exit("revoked"), "never started: revoked · ran 0.0 s"),
    ],
)
def test_the_trailer_says_how_it_ended(end: Exit, words: str) -> None:
    line = logfile.trailer(end).decode()
    assert line.startswith("[stoker] ")
    assert line.endswith(f" · {words}\n")


def test_the_trailer_begins_a_line_of_its_own() -> None:
    end = Exit("exit", code=0)
    assert logfile.trailer(end, b"loss 0.1").startswith(b"\n[stoker] ")
    assert logfile.trailer(end, b"loss 0.1\n").startswith(b"[stoker] ")
    assert logfile.trailer(end, b"").startswith(b"[stoker] ")


def test_the_real_cap_is_256_mib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert logfile.HEAD + logfile.TAIL == 256 * MIB
