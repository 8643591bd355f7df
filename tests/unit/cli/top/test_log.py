"""The end of a log, as one reads it on the screen."""

from __future__ import annotations

from typing import Any

import pytest
from typing_extensions import override

from stoker.cli.top.log import LogTail
from stoker.cli.top.model import Written
from stoker.client import Client, LogPart, Refused


class Output(Client):
    """A server's side of one log."""

    def __init__(self) -> None:
        super().__init__(url="http://127.0.0.1:1", token="x")
        self.data = b""
        self.refusal: Refused | None = None

    @override
    def log(self, id: str, *, offset: int = 0, limit: int | None = None, **_: Any) -> LogPart:
        if self.refusal is not None:
            raise self.refusal
        begin = max(0, len(self.data) + offset) if offset < 0 else offset
        return LogPart(begin, self.data[begin:][:limit], len(self.data), False)


@pytest.fixture
def output() -> Output:
    return Output()


def read(log: LogTail, output: Output) -> list[Written]:
    return list(log.read(output))


def test_lines_as_they_come(output: Output) -> None:
    log = LogTail("1")
    output.data = b"one\ntw"
    assert read(log, output) == [Written("1", ["one"], "tw", afresh=True)]
    assert read(log, output) == []
    output.data += "o\n训".encode()[:-1]
    assert read(log, output) == [Written("1", ["two"], "", afresh=False)]
    output.data += "训".encode()[-1:] + b"\n"
    assert read(log, output) == [Written("1", ["训"], "", afresh=False)]


def test_a_progress_bar_shows_its_last_state_and_nothing_is_obeyed(output: Output) -> None:
    output.data = b"10 %\r50 %\r100 %\r\n\x1b[31mred\x1b[0m\x1b]0;title\x07 \x1b[2Jx\ta\n\x9b5m"
    [written] = read(LogTail("1"), output)
    assert written.lines == ["100 %", "red x   a"]


def test_a_long_log_begins_near_its_end(output: Output) -> None:
    output.data = b"".join(b"line %d\n" % n for n in range(100_000))
    [written] = read(LogTail("1"), output)
    assert written.lines[-1] == "line 99999"
    assert len(written.lines) < 10_000


def test_what_has_not_begun_is_said_once_and_then_followed(output: Output) -> None:
    log = LogTail("1")
    output.refusal = Refused("no_attempt_yet", "It has not started yet.", None, None, 409)
    assert read(log, output) == [Written("1", [], "It has not started yet.", afresh=True)]
    assert read(log, output) == []
    output.refusal, output.data = None, b"begun\n"
    assert read(log, output) == [Written("1", ["begun"], "", afresh=True)]


def test_another_attempt_begins_afresh(output: Output) -> None:
    log = LogTail("1")
    output.data = b"first attempt\n"
    read(log, output)
    output.data = b"second\n"
    assert read(log, output) == [Written("1", ["second"], "", afresh=True)]
