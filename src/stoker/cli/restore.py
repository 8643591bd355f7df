"""`stoker restore`: a backup takes the place of the records. What was there is kept beside."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import click

from stoker.config import find_home

from .alive import live_parts, server_pid
from .command import command as declare
from .command import json_option, option
from .progress import Line
from .say import refuse, tell, words


@declare("restore")
@click.argument("file", metavar="FILE")
@option("--to", metavar="HOME", default="")
@option("-y", "--yes", is_flag=True)
@json_option
def command(file: str, to: str, yes: bool, as_json: bool) -> None:
    from stoker.runner import killpoint

    killpoint.arm(os.environ.get("STOKER_KILL_POINTS", ""))
    home = Path(os.path.abspath(os.path.expanduser(to))) if to else find_home(os.environ)
    if os.environ.get("STOKER_DATABASE"):
        refuse("restore.elsewhere")
    pid = server_pid(home)
    if pid is not None:
        refuse("reset.served", pid=pid or "?")
    if not yes and not as_json and sys.stdin.isatty():
        click.confirm(words("restore.confirm", home=str(home)), abort=True)
    if os.name != "nt":
        from .keeper import close_to_server

        close_to_server(home)
    _restore(Path(file), home, as_json)


def _restore(file: Path, home: Path, as_json: bool) -> None:
    from stoker.store.restore import restore

    line = Line()
    try:
        done = restore(file, home, line.bytes)
    finally:
        line.end()
    manifest, running = done.manifest, live_parts(home)
    if as_json:
        facts = {
            "home": str(home),
            "made_at": manifest.made_at,
            "epoch": done.epoch,
            "records": manifest.records,
            "logs": done.logs,
            "moved_to": done.aside and str(done.aside),
            "running": running,
        }
        print(json.dumps(facts, ensure_ascii=False))
        return
    tell("restore.done", home=str(home), tasks=manifest.records["tasks"], made_at=manifest.made_at)
    if done.aside is not None:
        tell("restore.aside", aside=str(done.aside))
    tell("restore.lost", made_at=manifest.made_at)
    if running:
        tell("restore.running", count=running)
    tell("restore.next")
