"""`stoker server-log`: what happened on the server, for everybody; with `--full` its own log, for admins."""

from __future__ import annotations

import sys

import msgspec

from stoker.wire_admin import JournalLine, NewsLine

from .client import Client
from .command import command as declare
from .command import json_option, option
from .options import Whole
from .say import refuse, tell
from .screen import clean
from .shown import clock

MOST = 2000


@declare("server-log")
@option("-f", "--follow", is_flag=True, help="opt.follow_log")
@option("-n", "--most", type=Whole(), help="opt.most_lines")
@option("--full", is_flag=True)
@json_option
def command(follow: bool, most: int | None, full: bool, as_json: bool) -> None:
    if most is not None and most < 1:
        refuse("usage.at_least_one", "most")
    limit = None if most is None else min(most, MOST)
    with Client() as client:
        page = client.full_server_log(limit) if full else client.server_log(limit)
        for line in page.lines:
            _print(line, as_json)
        if not page.lines and not follow and not as_json:
            tell("serverlog.none")
        if follow:
            sys.stdout.flush()
            go_on = client.follow_full_server_log if full else client.follow_server_log
            for line in go_on(page.next):
                _print(line, as_json)
                sys.stdout.flush()


def _print(line: NewsLine | JournalLine, as_json: bool) -> None:
    if as_json:
        sys.stdout.buffer.write(msgspec.json.encode(line) + b"\n")
        sys.stdout.buffer.flush()
    elif isinstance(line, NewsLine):
        print(f"{clock(line.at)}  {clean(line.message)}")
    else:
        for part in line.text.splitlines():
            print(clean(part))
