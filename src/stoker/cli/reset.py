"""`stoker reset`: begins afresh. The state folder is moved aside, never deleted.

Refused while a server or an attempt lives: their records would go from under them.
"""

from __future__ import annotations

import json
import os
import sys
from datetime import datetime
from pathlib import Path

import click

from stoker.config import find_home

from .alive import end_runner, live_parts, server_pid
from .command import command as declare
from .command import json_option, option
from .say import refuse, tell, words


@declare("reset")
@option("-y", "--yes", is_flag=True)
@json_option
def command(yes: bool, as_json: bool) -> None:
    home = find_home(os.environ)
    if not home.exists():
        _report(None, home, as_json)
        return
    _check_nobody_is_there(home)
    if not yes and sys.stdin.isatty():
        click.confirm(words("reset.confirm", home=str(home)), abort=True)
        _check_nobody_is_there(home)
    if not end_runner(home):
        refuse("down.runner_still_there")
    aside = _free_name(home)
    home.rename(aside)
    _report(aside, home, as_json)


def _check_nobody_is_there(home: Path) -> None:
    pid = server_pid(home)
    if pid is not None:
        refuse("reset.served", pid=pid or "?")
    count = live_parts(home)
    if count:
        refuse("reset.tasks", count=count)


def _free_name(home: Path) -> Path:
    now = datetime.now().astimezone().strftime("%Y%m%d-%H%M%S")
    name, number = f"{home.name}.old-{now}", 1
    while (home.parent / name).exists():
        number += 1
        name = f"{home.name}.old-{now}-{number}"
    return home.parent / name


def _report(aside: Path | None, home: Path, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"home": str(home), "moved_to": aside and str(aside)}))
    elif aside is None:
        tell("reset.nothing", home=str(home))
    else:
        tell("reset.done", home=str(home), aside=str(aside))
