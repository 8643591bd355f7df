"""A file that is written by a command appears whole, in nobody's place, or not at all."""

from __future__ import annotations

import os
from datetime import datetime, timedelta
from pathlib import Path

import click
import pytest

from stoker.cli.export import Past, whole_file
from stoker.cli.say import Refusal


def test_it_appears_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    with whole_file(str(path), force=False) as file:
        file.write(b"half")
        assert not path.exists()
        file.write(b" and half")
    assert path.read_bytes() == b"half and half"
    assert os.listdir(tmp_path) == ["a.csv"]


def test_what_fails_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("before")

    def fail() -> None:
        with whole_file(str(path), force=True) as file:
            file.write(b"half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert os.listdir(tmp_path) == ["a.csv"]
    assert path.read_text() == "before"


def test_a_file_that_somebody_made_meanwhile_stays(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"

    def write() -> None:
        with whole_file(str(path), force=False) as file:
            file.write(b"mine")
            path.write_text("yours")

    with pytest.raises(Refusal):
        write()
    assert path.read_text() == "yours"
    assert os.listdir(tmp_path) == ["a.csv"]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    real, link = tmp_path / "real.csv", tmp_path / "link.csv"
    real.write_text("before")
    link.symlink_to(real)
    with whole_file(str(link), force=True) as file:
        file.write(b"after")
    assert link.is_symlink()
    assert real.read_text() == "after"


def test_devices_and_folders_are_not_replaced(tmp_path: Path) -> None:
    for path in ("/dev/null", str(tmp_path)):
        with pytest.raises(Refusal), whole_file(path, force=True):
            pass


@pytest.mark.parametrize(
    ("typed", "seconds"), [("7d", 7 * 86400), ("90s", 90), ("2h30m", 9000), ("24:00:00", 86400)]
)
def test_so_long_ago(typed: str, seconds: int) -> None:
    before = datetime.now().astimezone()
    found = Past().convert(typed, None, None)
    after = datetime.now().astimezone()
    assert before <= found + timedelta(seconds=seconds) <= after


def test_a_day_is_where_the_clock_hangs() -> None:
    day = Past().convert("2026-11-01", None, None)
    assert (day.isoformat()[:19], day.tzinfo is None) == ("2026-11-01T00:00:00", False)
    said = Past().convert("2026-11-01T22:00:00+08:00", None, None)
    assert said == datetime.fromisoformat("2026-11-01T14:00:00+00:00")


@pytest.mark.parametrize("typed", ["", "7", "tomorrow", "7x", "-1d", "9" * 30 + "d", "20261301"])
def test_what_is_no_time(typed: str) -> None:
    with pytest.raises(click.BadParameter):
        Past().convert(typed, None, None)
