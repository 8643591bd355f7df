"""Installing the service, with a stand-in for systemctl that notes what it is asked."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from stoker.cli.say import Refusal
from stoker.cli.service import check_other_server, install, status, uninstall
from stoker.cli.systemd import Systemd
from stoker.cli.unit import NAME, Unit, unit_text
from stoker.store.recorder import open_store

SYSTEMCTL = """#!/bin/sh
echo "$*" >> "$NOTES/asked"
[ "$1" = --user ] && shift
case "$1" in
    is-enabled) [ -e "$NOTES/enabled" ] && echo enabled || { echo disabled; exit 1; } ;;
    is-active) [ -e "$NOTES/active" ] && echo active || { echo inactive; exit 3; } ;;
    enable) touch "$NOTES/enabled" ;;
    start|restart)
        [ -e "$NOTES/broken" ] && { echo 'Job for stoker.service failed.' >&2; exit 1; }
        touch "$NOTES/active" ;;
    disable) rm -f "$NOTES/enabled" "$NOTES/active" ;;
esac
"""
LOGINCTL = """#!/bin/sh
[ -e "$NOTES/lingers" ] && echo Linger=yes || echo Linger=no
"""


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    programs, notes = tmp_path / "bin", tmp_path / "notes"
    programs.mkdir()
    notes.mkdir()
    for name, text in (("systemctl", SYSTEMCTL), ("loginctl", LOGINCTL)):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("NOTES", str(notes))
    return notes


@pytest.fixture
def systemd(tmp_path: Path, notes: Path) -> Systemd:
    return Systemd(tmp_path / "units" / "user", is_system=False)


def a_unit(home: str = "/srv/home") -> Unit:
    return Unit("/opt/python", home, is_system=False)


def asked(notes: Path) -> list[str]:
    """What changes something, since the last look."""
    path = notes / "asked"
    lines = path.read_text().splitlines() if path.exists() else []
    path.unlink(missing_ok=True)
    return [line for line in lines if " is-" not in line]


def test_install_writes_reloads_enables_and_starts(
    systemd: Systemd, notes: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    steps = install(systemd, a_unit())

    assert systemd.path.read_text() == unit_text(a_unit())
    assert stat.S_IMODE(systemd.path.stat().st_mode) == 0o644
    expected = ["--user daemon-reload", f"--user enable {NAME}", f"--user start {NAME}"]
    assert asked(notes) == expected
    assert steps[1:] == [f"systemctl {line}" for line in expected]
    assert capsys.readouterr().out.splitlines() == [f"  {step}" for step in steps]


def test_a_second_install_does_nothing(systemd: Systemd, notes: Path) -> None:
    install(systemd, a_unit())
    before = systemd.path.stat().st_ino
    asked(notes)

    (step,) = install(systemd, a_unit())

    assert "as it should be" in step
    assert asked(notes) == []
    assert systemd.path.stat().st_ino == before
    assert os.listdir(systemd.path.parent) == [NAME]


def test_a_changed_one_is_shown_kept_and_restarted(
    systemd: Systemd, notes: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    install(systemd, a_unit())
    asked(notes)
    capsys.readouterr()

    install(systemd, a_unit("/srv/other"))

    said = capsys.readouterr().out
    assert '-Environment="STOKER_HOME=/srv/home"' in said
    assert '+Environment="STOKER_HOME=/srv/other"' in said
    assert systemd.path.with_name(f"{NAME}.bak").read_text() == unit_text(a_unit())
    assert systemd.path.read_text() == unit_text(a_unit("/srv/other"))
    assert asked(notes) == [
        "--user daemon-reload",
        f"--user enable {NAME}",
        f"--user restart {NAME}",
    ]


def test_a_step_that_fails_is_said(systemd: Systemd, notes: Path) -> None:
    (notes / "broken").touch()

    with pytest.raises(Refusal, match="Job for stoker"):
        install(systemd, a_unit(), quiet=True)

    (notes / "broken").unlink()
    assert install(systemd, a_unit(), quiet=True) == [f"systemctl --user start {NAME}"]


def test_uninstall_stops_and_removes(systemd: Systemd, notes: Path) -> None:
    install(systemd, a_unit(), quiet=True)
    asked(notes)

    uninstall(systemd, quiet=True)

    assert asked(notes) == [f"--user disable --now {NAME}", "--user daemon-reload"]
    assert not systemd.path.exists()


def test_status(systemd: Systemd, notes: Path, tmp_path: Path) -> None:
    facts = status(systemd, tmp_path)
    assert (facts["installed"], facts["enabled"], facts["active"]) == (
        False, "disabled", "inactive",
    )  # fmt: skip
    assert facts["url"] is None
    install(systemd, a_unit(), quiet=True)
    (notes / "lingers").touch()
    facts = status(systemd, tmp_path)
    assert (facts["installed"], facts["enabled"], facts["active"]) == (True, "enabled", "active")
    assert facts["lingers"]


def test_without_systemctl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    systemd = Systemd(tmp_path, is_system=True)
    systemd.path.write_text("old")

    assert (systemd.says("is-active"), systemd.lingers) == ("unknown", True)
    with pytest.raises(Refusal, match="systemctl cannot be run"):
        install(systemd, a_unit(), quiet=True)
    uninstall(systemd, quiet=True)
    assert not systemd.path.exists()


def test_a_server_that_was_started_by_hand_is_in_the_way(
    systemd: Systemd, notes: Path, tmp_path: Path
) -> None:
    store = open_store(tmp_path / "stoker.db")
    try:
        with pytest.raises(Refusal, match="stoker down"):
            check_other_server(systemd, a_unit(str(tmp_path)))
        (notes / "active").touch()
        check_other_server(systemd, a_unit(str(tmp_path)))
    finally:
        store.close()
