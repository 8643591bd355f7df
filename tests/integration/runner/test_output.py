"""Where output goes, what is kept of it, and reading it back by offset."""

from __future__ import annotations

import base64
import itertools
import os
import pwd
from pathlib import Path

import pytest

from stoker.runner.protocol import Launch, LogData, ReadLog
from tests.helpers.runner_client import Client, wait_until
from tests.integration.runner.conftest import NOBODY

_ids = itertools.count(1)


def read(
    client: Client, launch: Launch, stream: str = "stdout", offset: int = 0, limit: int = 1 << 16
) -> LogData:
    name = next(_ids)
    client.send(ReadLog(name, launch.attempt, launch.rank, stream, offset, limit))
    return client.expect(LogData, lambda data: data.id == name)


def text(data: LogData) -> bytes:
    return base64.b64decode(data.data)


def test_both_streams_go_to_our_log_between_header_and_trailer(shared: Client) -> None:
    launch = shared.launch(shell="echo out; echo err >&2; echo more >> /dev/stderr")
    seen = shared.ended(launch)
    assert seen.log is not None
    lines = base64.b64decode(seen.log).splitlines()
    assert lines[1:-1] == [b"out", b"err", b"more"]
    assert lines[0].startswith(b"[stoker] ")
    assert b"code 0" in lines[-1]
    data = read(shared, launch)
    assert text(data) == base64.b64decode(seen.log)
    assert data.size == len(text(data))
    assert text(read(shared, launch, "stderr", offset=data.size - 5)) == text(data)[-5:]
    shared.forget(launch)
    assert read(shared, launch).error == "missing"


def test_a_large_log_is_not_sent_with_the_end(shared: Client) -> None:
    launch = shared.launch(shell="head -c 9000 /dev/zero | tr '\\0' x")
    assert shared.ended(launch).log is None
    shared.forget(launch)


def test_a_log_is_followed_while_it_grows_no_byte_twice(shared: Client, place: Path) -> None:
    go = place / "go"
    launch = shared.launch(shell=f"echo one; while [ ! -e {go} ]; do sleep 0.02; done; echo two")
    shared.state(launch, "running")
    got = b""

    def has(word: bytes) -> bool:
        nonlocal got
        data = read(shared, launch, offset=len(got))
        assert data.offset == len(got)
        got += text(data)
        return word in got

    wait_until(lambda: has(b"one"))
    go.touch()
    wait_until(lambda: has(b"two"))
    shared.ended(launch)
    assert got.count(b"one") == got.count(b"two") == 1
    shared.forget(launch)


def test_files_that_the_owner_names(shared: Client, place: Path) -> None:
    folder = place / "work"
    folder.mkdir()
    (folder / "old").write_text("kept\n")
    (folder / "fresh").write_text("dropped\n")
    line = "echo out; echo err >&2"
    for stdout, stderr in (("+old", "merge"), ("fresh", "fresh"), ("a", "b"), ("discard", "c")):
        launch = shared.launch(shell=line, workdir=str(folder), stdout=stdout, stderr=stderr)
        seen = shared.ended(launch)
        assert seen.exit is not None
        assert seen.exit.code == 0
        assert seen.log is None
        assert not (shared.runner.spool / f"{launch.attempt}.0.log").exists()
        shared.forget(launch)
    assert (folder / "old").read_text() == "kept\nout\nerr\n"
    assert (folder / "fresh").read_text() == "out\nerr\n"
    assert (folder / "a").read_text() == "out\n"
    assert (folder / "b").read_text() == (folder / "c").read_text() == "err\n"
    assert (folder / "a").stat().st_mode & 0o777 == 0o644


def test_the_owners_files_are_followed_too(shared: Client, place: Path) -> None:
    launch = shared.launch(
        shell="echo out; echo err >&2; sleep 100", workdir=str(place), stdout="o", stderr="e"
    )
    shared.state(launch, "running")
    wait_until(lambda: text(read(shared, launch, "stdout")) == b"out\n")
    wait_until(lambda: text(read(shared, launch, "stderr")) == b"err\n")
    (place / "o").unlink()
    assert read(shared, launch).error == "missing"
    os.mkfifo(place / "o")
    assert "regular" in read(shared, launch).error
    shared.stop(launch)
    shared.ended(launch)
    shared.forget(launch)


def test_discarded_output_says_so(shared: Client) -> None:
    launch = shared.launch("echo", "x", stdout="discard")
    shared.ended(launch)
    assert read(shared, launch).error == "discarded"
    assert read(shared, launch, "stderr").error == "discarded"
    shared.forget(launch)


def test_a_pipe_without_a_reader_is_refused_not_waited_for(shared: Client, place: Path) -> None:
    os.mkfifo(place / "pipe")
    launch = shared.launch("true", workdir=str(place), stdout="pipe")
    end = shared.ended(launch).exit
    assert end is not None
    assert (end.cause, end.reason) == ("refused", "stdout_not_writable")
    shared.forget(launch)


@pytest.mark.parametrize("named", [False, True])
def test_the_reason_is_found_in_the_output(shared: Client, place: Path, named: bool) -> None:
    launch = shared.launch(
        "python3",
        "-c",
        "import no_such_module",
        workdir=str(place),
        **({"stdout": "out", "stderr": "err"} if named else {}),
    )
    end = shared.ended(launch).exit
    assert end is not None
    assert (end.code, end.reason, end.detail) == (1, "module_missing", "no_such_module")
    shared.forget(launch)


def test_a_reader_becomes_the_owner(shared: Client, place: Path) -> None:
    """A file that root could read but its owner cannot any more stays closed."""
    if os.geteuid() != 0:
        pytest.skip("needs root: reads as another account")
    home = place / "home"
    home.mkdir()
    os.chown(home, NOBODY, NOBODY)
    launch = shared.launch(
        shell="echo x; sleep 100",
        account=pwd.getpwuid(NOBODY).pw_name,
        workdir=str(home),
        stdout="o",
    )
    shared.state(launch, "running")
    wait_until(lambda: text(read(shared, launch)) == b"x\n")
    (home / "o").unlink()
    (home / "o").symlink_to("/etc/shadow")
    assert read(shared, launch).error == "denied"
    shared.stop(launch)
    shared.ended(launch)
    shared.forget(launch)


def test_usage_is_recorded(shared: Client) -> None:
    launch = shared.launch("python3", "-c", "x = bytearray(200 << 20); sum(range(3_000_000))")
    end = shared.ended(launch).exit
    assert end is not None
    assert 200 <= end.max_rss_mib < 400
    assert 0 < end.cpu_s < 10
    assert 0 < end.ran_s < 10
    shared.forget(launch)
