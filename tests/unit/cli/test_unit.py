"""The systemd unit: what tasks depend on is in it, and paths survive systemd's own quoting."""

from __future__ import annotations

import configparser
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.cli.unit import Unit, cron_line, unit_text

PATHS = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cc", "Cs"), exclude_characters="$/"),
    min_size=1,
).map(lambda name: f"/srv/{name}/x")


def read(text: str) -> configparser.RawConfigParser:
    found = configparser.RawConfigParser(strict=True, delimiters=("=",), comment_prefixes=("#",))
    found.optionxform = str  # type: ignore[assignment,method-assign]
    found.read_string(text)
    return found


def unquoted(word: str) -> str:
    """As systemd reads it: C escapes, then specifiers."""
    assert (word[0], word[-1]) == ('"', '"')
    inner = word[1:-1]
    assert re.fullmatch(r'(?:[^"\\]|\\["\\])*', inner), inner
    plain = re.sub(r"\\(.)", r"\1", inner)
    assert "%" not in plain.replace("%%", ""), plain
    return plain.replace("%%", "%")


def a_unit(is_system: bool = True, nice: int = 0, io_class: str = "") -> Unit:
    return Unit("/opt/x/python", "/srv/home", is_system, nice, io_class)


@pytest.mark.parametrize("is_system", [True, False])
def test_tasks_outlive_the_service(is_system: bool) -> None:
    service = read(unit_text(a_unit(is_system)))["Service"]

    assert service["KillMode"] == "process"
    assert service["OOMPolicy"] == "continue"
    assert service["TasksMax"] == "infinity"
    assert service["Restart"] == "on-failure"
    assert service["Delegate"] == "yes"


@pytest.mark.parametrize("is_system", [True, False])
def test_nothing_that_tasks_would_inherit(is_system: bool) -> None:
    service = read(unit_text(a_unit(is_system, nice=3, io_class="idle")))["Service"]

    assert set(service) == {
        "Type", "Environment", "ExecStart", "KillMode", "TimeoutStopSec", "Restart", "RestartSec",
        "RestartSteps", "RestartMaxDelaySec", "OOMPolicy", "TasksMax", "Delegate", "LimitNOFILE",
        "UMask", "Nice", "LimitNICE", "IOSchedulingClass",
    }, "a new key holds for every task as well: does it hinder one?"  # fmt: skip


def test_priority_only_when_asked_for() -> None:
    plain = read(unit_text(a_unit()))["Service"]
    assert not {"Nice", "LimitNICE", "IOSchedulingClass"} & set(plain)
    nice = read(unit_text(a_unit(nice=7, io_class="best-effort")))["Service"]
    assert (nice["Nice"], nice["LimitNICE"]) == ("7", "+0")
    assert nice["IOSchedulingClass"] == "best-effort"


def test_where_it_belongs() -> None:
    system, user = read(unit_text(a_unit(True))), read(unit_text(a_unit(False)))
    assert system["Install"]["WantedBy"] == "multi-user.target"
    assert user["Install"]["WantedBy"] == "default.target"
    assert "After" in system["Unit"]
    assert "After" not in user["Unit"], "an account's systemd knows nothing of the network"


@given(python=PATHS, home=PATHS)
def test_paths_come_through(python: str, home: str) -> None:
    service = read(unit_text(Unit(python, home, True)).replace("\x85", "?"))["Service"]

    if "\x85" not in python + home:
        assert unquoted(service["Environment"]) == f"STOKER_HOME={home}"
        assert unquoted(service["ExecStart"].removesuffix(" -m stoker up")) == python


@pytest.mark.parametrize("path", ["/a\nb", "/a\x00", "/a\udcff"])
def test_what_no_unit_can_hold_is_named(path: str) -> None:
    assert a_unit()._replace(home=path).flaw == path
    assert a_unit()._replace(python=path).flaw == path
    assert a_unit().flaw == ""
    assert a_unit()._replace(python="/a/$b/python").flaw == "/a/$b/python"
    assert a_unit()._replace(home="/a/$b").flaw == ""


def test_a_line_for_cron() -> None:
    line = cron_line("/a b/python", "/srv/100%")
    assert line == r"@reboot STOKER_HOME=/srv/100\% '/a b/python' -m stoker up --detach"
