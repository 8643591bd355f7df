"""`stoker service`: the server as a systemd service that starts at boot.

As root it is a service of the machine, else one of this account. Nothing here ends a task: the unit
says so (unit.py). A file that is replaced is kept as `.bak` and the difference is shown.
"""

from __future__ import annotations

import difflib
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from stoker.client import Client, Refused, ServerUnreachable
from stoker.config import find_home, load

from .alive import server_pid
from .command import CONTEXT, Command, Group, json_option, option
from .command import command as declare
from .options import Whole
from .say import language, refuse, tell, warn, words
from .systemd import BOOTED, Systemd
from .unit import IO_CLASSES, NAME, Unit, cron_line, unit_text


class Service(Group, Command):
    """`service` has commands of its own."""


class Install(Command):
    key = "service-install"


class Uninstall(Command):
    key = "service-uninstall"


class Status(Command):
    key = "service-status"


class Print(Command):
    key = "service-print"


def unit_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """What a unit may be asked for."""
    function = option("--io-class", metavar="|".join(IO_CLASSES))(function)
    return option("--nice", type=Whole())(function)


@declare("install", cls=Install)
@unit_options
@json_option
def install_command(nice: int | None, io_class: str | None, as_json: bool) -> None:
    systemd, unit = Systemd.here(), _unit(nice, io_class)
    if not BOOTED.is_dir():
        refuse("service.no_systemd", line=cron_line(unit.python, unit.home))
    check_other_server(systemd, unit)
    steps = install(systemd, unit, quiet=as_json)
    if systemd.is_system:
        steps += _let_people_log_in(quiet=as_json)
    if as_json:
        print(json.dumps({"path": str(systemd.path), "steps": steps}, ensure_ascii=False))
        return
    _notes(systemd, unit)
    journal = systemd.manager.replace("systemctl", "journalctl")
    tell("service.installed", manager=systemd.manager, journal=journal, home=unit.home)


@declare("uninstall", cls=Uninstall)
@option("-y", "--yes", is_flag=True)
@json_option
def uninstall_command(yes: bool, as_json: bool) -> None:
    systemd = Systemd.here()
    if not systemd.path.exists():
        if as_json:
            print(json.dumps({"path": str(systemd.path), "steps": []}))
        else:
            tell("service.not_installed", path=str(systemd.path))
        return
    if not yes:
        if as_json or not sys.stdin.isatty():
            refuse("service.needs_yes")
        click.confirm(words("service.confirm", path=str(systemd.path)), abort=True)
    steps = uninstall(systemd, quiet=as_json)
    if as_json:
        print(json.dumps({"path": str(systemd.path), "steps": steps}, ensure_ascii=False))
    else:
        tell("service.uninstalled")


@declare("status", cls=Status)
@json_option
def status_command(as_json: bool) -> None:
    facts = status(Systemd.here(), find_home(os.environ))
    if as_json:
        print(json.dumps(facts, ensure_ascii=False))
        return
    yes, no = words("service.yes"), words("service.no")
    tell("service.status_unit", path=facts["path"], installed=yes if facts["installed"] else no)
    tell("service.status_enabled", enabled=facts["enabled"])
    tell("service.status_active", active=facts["active"])
    if facts["url"]:
        tell("service.status_answers", url=facts["url"])
    else:
        tell("service.status_silent", home=facts["home"])
    if facts["installed"] and not facts["lingers"]:
        tell("service.linger")


@declare("print", cls=Print)
@unit_options
@json_option
def print_command(nice: int | None, io_class: str | None, as_json: bool) -> None:
    text, path = unit_text(_unit(nice, io_class)), str(Systemd.here().path)
    if as_json:
        print(json.dumps({"path": path, "unit": text}, ensure_ascii=False))
    else:
        sys.stdout.write(text)


@click.group("service", cls=Service, invoke_without_command=True, context_settings=CONTEXT)
@click.pass_context
def command(ctx: click.Context) -> None:
    if ctx.invoked_subcommand is None:
        print(ctx.get_help())


for one in (install_command, uninstall_command, status_command, print_command):
    command.add_command(one)


# ---- what they do


def check_other_server(systemd: Systemd, unit: Unit) -> None:
    """A server that was started by hand would make the service's own end at once."""
    pid = server_pid(Path(unit.home))
    if pid is not None and systemd.says("is-active") != "active":
        refuse("service.other_server", pid=pid or "?")


def install(systemd: Systemd, unit: Unit, *, quiet: bool = False) -> list[str]:
    """Write, reload, enable and start; the steps that were needed. May be repeated."""
    steps: list[str] = []

    def did(what: str) -> None:
        steps.append(what)
        if not quiet:
            print(f"  {what}")

    was_active = systemd.says("is-active") == "active"
    changed = _write(systemd.path, unit_text(unit), did, quiet=quiet)
    if changed:
        _do(systemd, did, "daemon-reload")
    if changed or systemd.says("is-enabled") != "enabled":
        _do(systemd, did, "enable", NAME)
    if was_active and changed:
        _do(systemd, did, "restart", NAME)  # tasks go on
    elif not was_active:
        _do(systemd, did, "start", NAME)
    if not steps:
        did(words("service.unchanged", path=str(systemd.path)))
    return steps


def _let_people_log_in(*, quiet: bool) -> list[str]:
    """With the passwords of their unix accounts, where an admin says so."""
    from .pamfile import write_pam_file

    made = write_pam_file()
    if made is None:
        return []
    step = words("service.wrote", path=str(made))
    if not quiet:
        print(f"  {step}")
    return [step]


def uninstall(systemd: Systemd, *, quiet: bool = False) -> list[str]:
    """Stop, disable and remove. Tasks go on."""
    steps: list[str] = []

    def did(what: str) -> None:
        steps.append(what)
        if not quiet:
            print(f"  {what}")

    runs = systemd.says("is-enabled") != "unknown"  # systemd does, not necessarily the service
    if runs:
        _do(systemd, did, "disable", "--now", NAME)
    systemd.path.unlink()
    did(words("service.removed", path=str(systemd.path)))
    if runs:
        _do(systemd, did, "daemon-reload")
    return steps


def status(systemd: Systemd, home: Path) -> dict[str, Any]:
    """Is it there, will it start, does it run, does it answer."""
    try:
        with Client(home=home, timeout_s=5, language=language()) as client:
            client.health()
            url: str | None = client.url
    except (ServerUnreachable, Refused):
        url = None
    return {
        "path": str(systemd.path),
        "installed": systemd.path.exists(),
        "enabled": systemd.says("is-enabled"),
        "active": systemd.says("is-active"),
        "lingers": systemd.lingers,
        "home": str(home),
        "url": url,
    }


def _unit(nice: int | None, io_class: str | None) -> Unit:
    if nice is not None and not 0 <= nice <= 19:
        refuse("service.bad_nice", "nice")
    if io_class is not None and io_class not in IO_CLASSES:
        refuse("service.bad_io_class", "io_class", choices=", ".join(IO_CLASSES))
    unit = Unit(
        python=sys.executable,
        home=str(find_home(os.environ)),
        is_system=os.geteuid() == 0,
        nice=nice or 0,
        io_class=io_class or "",
    )
    if unit.flaw:
        refuse("service.bad_path", path=unit.flaw)
    return unit


def _write(path: Path, text: str, did: Callable[[str], None], *, quiet: bool) -> bool:
    """The unit in its place; what stood there is shown and kept. False: it is so already."""
    before = path.read_text("utf-8", "replace") if path.exists() else None
    if before == text:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    if before is not None:
        bak = path.with_name(path.name + ".bak")
        path.replace(bak)
        if not quiet:
            _show(before, text, path)
        did(words("service.kept", path=str(bak)))
    beside = path.with_name(f".{path.name}.part")
    beside.write_text(text, "utf-8")
    beside.chmod(0o644)
    beside.replace(path)
    did(words("service.wrote", path=str(path)))
    return True


def _show(before: str, after: str, path: Path) -> None:
    from .screen import clean

    lines = difflib.unified_diff(
        before.splitlines(), after.splitlines(), f"{path}.bak", str(path), lineterm=""
    )
    for line in lines:
        print(clean(line))


def _do(systemd: Systemd, did: Callable[[str], None], *arguments: str) -> None:
    try:
        done = systemd.ask(*arguments)
    except OSError as error:
        refuse("service.no_systemctl", why=error.strerror or str(error))
    if done.code:
        said = " ".join(f"{done.err} {done.out}".split()) or f"exit code {done.code}"
        key = "service.no_bus" if "bus" in said and not systemd.is_system else "service.step_failed"
        refuse(key, step=done.words, said=said[:500])
    did(done.words)


def _notes(systemd: Systemd, unit: Unit) -> None:
    sources = load(os.environ, {}).sources
    typed = [name for name, at in sources.items() if at == "environment" and name != "home"]
    if typed:
        warn("service.environment", names=", ".join(typed), path=f"{unit.home}/config.toml")
    if unit.nice and not unit.is_system:
        warn("service.nice_inherited")
    if not systemd.lingers:
        warn("service.linger")
