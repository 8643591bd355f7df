"""`stoker top`: nodes, cards and tasks as they are now, with keys to act on them.

model.py knows (pure), lines.py and fleet.py draw (pure), painter.py sends what changed, keys.py
reads, feed.py asks the server, loop.py puts them together. Without a terminal, or with `--once` or
`--json`, it is one picture and ends.
"""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime

import click
import msgspec

from stoker.cli.command import command as declare
from stoker.cli.command import json_option, option
from stoker.cli.options import Whole
from stoker.cli.say import refuse
from stoker.cli.screen import is_terminal, terminal_width
from stoker.cli.shown import own_account
from stoker.client import Client, Refused

from .feed import look
from .lines import render_all
from .model import Scene, Seen
from .painter import cells, dressed

WIDE = 1000
"""Columns where nobody said how many there are: nothing is cut."""
EVERY_S = 2


@declare("top")
@click.option("--every", type=Whole(), default=EVERY_S, metavar="SECONDS", help="opt.every")
@option("--once", is_flag=True)
@json_option
def command(every: int, once: bool, as_json: bool) -> None:
    if every < 1:
        refuse("usage.at_least_one", "every")
    is_picture = once or as_json or not is_terminal() or not sys.stdin.isatty()
    with Client() as client:
        scene = Scene(server=client.url, me=_me(client))
        seen = look(client, explain=None if is_picture else ())
    scene.hear(seen)
    if as_json:
        _print_json(scene, seen)
    elif is_picture:
        scene.selected = ""
        _print(scene)
    else:
        from .loop import run

        run(scene, every)


def _print_json(scene: Scene, seen: Seen) -> None:
    picture = {
        "server": scene.server, "at": datetime.now(UTC), "nodes": seen.nodes,
        "tasks": scene.tasks, "waits": seen.reasons,
    }  # fmt: skip
    sys.stdout.buffer.write(msgspec.json.encode(picture) + b"\n")


def _print(scene: Scene) -> None:
    columns = terminal_width() or _given_width()
    coloured = is_terminal() and not os.environ.get("NO_COLOR")
    for line in render_all(scene, columns or WIDE, datetime.now(UTC)):
        print(dressed(cells(line, columns or WIDE), coloured))


def _given_width() -> int | None:
    """`watch` says how wide it is."""
    given = os.environ.get("COLUMNS", "")
    return int(given) if given.isascii() and given.isdigit() and int(given) > 0 else None


def _me(client: Client) -> str:
    """Whose tasks are mine; a token for tasks alone may not ask."""
    try:
        return client.me().person.name
    except Refused:
        return own_account()
