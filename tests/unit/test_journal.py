"""The server's own log: nothing in it grows without bound, and no token gets in."""

from __future__ import annotations

import io
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker.journal import BURST, KEPT, MOST_LINE, PER_S, Journal


class Hands:
    """A clock that is turned by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def hands() -> Hands:
    return Hands()


@pytest.fixture
def out() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def journal(hands: Hands, out: io.StringIO) -> Iterator[Journal]:
    made = Journal(out, clock=hands)
    yield made
    made.close()


@pytest.fixture
def log(journal: Journal) -> Iterator[logging.Logger]:
    made = logging.getLogger("stoker.test")
    made.addHandler(journal)
    made.propagate = False
    yield made
    made.removeHandler(journal)
    made.propagate = True


def test_lines_are_written_and_the_newest_are_kept(
    journal: Journal, log: logging.Logger, out: io.StringIO, hands: Hands
) -> None:
    for number in range(KEPT + 10):
        hands.now += 1
        log.warning("event=x number=%s", number)

    assert out.getvalue().count("\n") == KEPT + 10
    assert len(journal.after(0, 10**6)) == KEPT
    (number, line), *_ = journal.after(0, 1)
    assert number == journal.last == KEPT + 10
    assert line.endswith(f"WARNING stoker.test event=x number={KEPT + 9}")
    assert journal.after(journal.last - 2, 10) == journal.after(0, 2)
    assert journal.after(journal.last, 10) == []


def test_a_flood_of_one_source_is_cut_down_and_counted_and_others_go_on(
    log: logging.Logger, out: io.StringIO, hands: Hands
) -> None:
    hands.now = 100.0
    for number in range(BURST + 500):
        log.warning("event=flood number=%s", number)
    log.warning("event=calm")

    said = out.getvalue()
    assert said.count("event=flood") == BURST
    assert "event=calm" in said
    hands.now += 2.0
    log.warning("event=flood number=%s", -1)
    assert "event=left_out source=stoker.test lines=500" in out.getvalue()
    for _ in range(10 * PER_S):
        log.warning("event=flood number=%s", 0)
    assert out.getvalue().count("event=flood") == BURST + 2 * PER_S


def test_what_was_left_out_is_said_at_the_end(
    journal: Journal, log: logging.Logger, out: io.StringIO
) -> None:
    for _ in range(BURST + 3):
        log.warning("event=flood")
    journal.close()
    assert "lines=3" in out.getvalue()


def test_a_line_is_short_and_holds_no_token(log: logging.Logger, out: io.StringIO) -> None:
    log.error("event=bad token=%s", "stk_" + "aB3_-" * 8)
    log.error("event=long %s", "x" * 10 * MOST_LINE)
    assert "aB3" not in out.getvalue()
    assert "token=stk_***" in out.getvalue()
    assert len(out.getvalue()) < 2 * MOST_LINE


def test_many_sources_cost_no_more_than_a_few(journal: Journal, log: logging.Logger) -> None:
    for number in range(3000):
        log.warning(f"event={number}")  # noqa: G004 - a source of its own each time
    assert len(journal._allowed) < 1000


PROGRAM = """
import logging, sys
from pathlib import Path
from stoker.journal import Journal
logging.basicConfig(level="INFO", handlers=[Journal(file=Path(sys.argv[1]), most_bytes=100_000)])
for number in range(4000):
    logging.getLogger(f"stoker.{number % 40}").info("event=%s %s", number, "x" * 100)
print("the end")
"""


def test_its_file_is_begun_anew_before_it_grows_large(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    with open(path, "ab") as out:
        command = [sys.executable, "-c", PROGRAM, str(path)]
        subprocess.run(command, stdout=out, stderr=out, check=True)

    assert sorted(os.listdir(tmp_path)) == ["server.log", "server.log.1"]
    sizes = [entry.stat().st_size for entry in tmp_path.iterdir()]
    assert max(sizes) < 250_000
    assert "event=3999" in path.read_text()
    assert path.read_text().endswith("the end\n")
    assert path.stat().st_mode & 0o077 == 0


def test_another_file_a_pipe_or_a_terminal_is_left_alone(tmp_path: Path) -> None:
    theirs, ours = tmp_path / "theirs.log", tmp_path / "server.log"
    ours.write_text("kept")
    with open(theirs, "ab") as out:
        command = [sys.executable, "-c", PROGRAM, str(ours)]
        subprocess.run(command, stdout=out, stderr=out, check=True)
    assert ours.read_text() == "kept"
    assert theirs.stat().st_size > 400_000
