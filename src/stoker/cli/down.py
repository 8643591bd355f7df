"""`stoker down`: ends the server of this machine; tasks go on, and the next `up` knows them.

`--stop-tasks` cancels everything that waits or runs first (waiting ones before running ones, so
that none of them starts meanwhile), then ends the runner too. May be repeated.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import click

from stoker.client import Client, Refused, ServerUnreachable
from stoker.config import find_home

from .alive import end_runner, end_server, live_parts, server_pid
from .command import command as declare
from .command import json_option, option
from .say import language, refuse, tell, words

ENDS_WITHIN_S = 30.0


@declare("down")
@option("--stop-tasks", is_flag=True)
@option("-y", "--yes", is_flag=True)
@json_option
def command(stop_tasks: bool, yes: bool, as_json: bool) -> None:
    home = find_home(os.environ)
    was_served = server_pid(home) is not None
    stopped = 0
    if stop_tasks:
        if was_served:
            stopped = _stop_tasks(home, yes or as_json)
        elif live_parts(home):
            refuse("down.tasks_without_server")
    if not end_server(home, ENDS_WITHIN_S):
        refuse("down.still_there", pid=server_pid(home) or "?")
    if stop_tasks and not end_runner(home):
        refuse("down.runner_still_there")
    going_on = live_parts(home)
    if as_json:
        print(json.dumps({"served": was_served, "stopped": stopped, "tasks": going_on}))
    elif not was_served:
        tell("down.was_down", count=going_on)
    elif stop_tasks:
        tell("down.all_ended", count=stopped)
    else:
        tell("down.ended", count=going_on)


def _stop_tasks(home: Path, is_sure: bool) -> int:
    """Cancel everything unfinished and wait until nothing is left."""
    with Client(home=home, language=language()) as client:
        tasks = list(client.tasks(state=["unfinished"], page=200))
        if tasks and not is_sure and sys.stdin.isatty():
            click.confirm(words("down.confirm", count=len(tasks)), abort=True)
        for task in sorted(tasks, key=lambda task: task.state not in ("HELD", "QUEUED")):
            try:
                client.cancel(task.id)
            except Refused as error:
                if error.code != "already_finished":
                    raise
        try:
            client.wait([task.id for task in tasks])
        except ServerUnreachable:
            refuse("down.server_went")
        return len(tasks)
