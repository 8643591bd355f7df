"""`stoker down`: ends the server of this machine; tasks go on, and the next `up` knows them.

`--stop-tasks` cancels everything that waits or runs first (waiting ones before running ones, so
that none of them starts meanwhile), then ends the runner too. A standby takes over from the server
that ended, and this is said; with `--stop-tasks` it is ended first. May be repeated.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from pathlib import Path

import click

from stoker.client import Client, Refused, ServerUnreachable
from stoker.config import find_home

from .alive import end_runner, end_server, end_standby, live_parts, server_pid, standby_pid
from .command import command as declare
from .command import json_option, option
from .say import language, refuse, tell, words

ENDS_WITHIN_S = 30.0
TAKES_OVER_WITHIN_S = 10.0
POLL_S = 0.05


@declare("down")
@option("--stop-tasks", is_flag=True)
@option("-y", "--yes", is_flag=True)
@json_option
def command(stop_tasks: bool, yes: bool, as_json: bool) -> None:
    home = find_home(os.environ)
    active = server_pid(home)
    was_served = active is not None
    stopped = 0
    if stop_tasks:
        if was_served:
            stopped = _stop_tasks(home, yes or as_json)
        elif live_parts(home):
            refuse("down.tasks_without_server")
    if stop_tasks and not end_standby(home, ENDS_WITHIN_S):
        refuse("down.still_there", pid=standby_pid(home) or "?")
    standby = standby_pid(home)
    if standby == active:  # it waits for another state folder's server, and ends now
        standby = None
    if not end_server(home, ENDS_WITHIN_S):
        refuse("down.still_there", pid=server_pid(home) or "?")
    if stop_tasks and not end_runner(home):
        refuse("down.runner_still_there")
    url = _taken_over(home, standby) if standby else None
    going_on = live_parts(home)
    if as_json:
        said = {"served": was_served, "stopped": stopped, "tasks": going_on, "standby": url}
        print(json.dumps(said))
    elif standby:
        tell("down.taken_over" if url else "down.takes_over", pid=standby, url=url or "")
    else:
        _tell_ended(was_served, stopped if stop_tasks else None, going_on)


def _tell_ended(was_served: bool, stopped: int | None, going_on: int) -> None:
    if not was_served:
        tell("down.was_down", count=going_on)
    elif stopped is not None:
        tell("down.all_ended", count=stopped)
    else:
        tell("down.ended", count=going_on)


def _taken_over(home: Path, standby: int) -> str | None:
    """Where the standby answers, if it does so within a moment."""
    deadline = time.monotonic() + TAKES_OVER_WITHIN_S
    while time.monotonic() < deadline:
        if server_pid(home) == standby:
            with contextlib.suppress(ServerUnreachable, Refused), Client(home=home) as client:
                client.health()
                return client.url
        time.sleep(POLL_S)
    return None


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
