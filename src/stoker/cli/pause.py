"""`stoker pause`: nothing new starts until `stoker pause --off`. What runs goes on."""

from __future__ import annotations

import sys

import click
import msgspec

from .client import Client
from .command import command as declare
from .command import json_option, option
from .say import refuse, tell


@declare("pause")
@click.argument("why", metavar="[WHY]", nargs=-1)
@option("--off", is_flag=True)
@json_option
def command(why: tuple[str, ...], off: bool, as_json: bool) -> None:
    if off and why:
        refuse("pause.off_without_why", "WHY")
    with Client() as client:
        client.says_pause = False
        found = client.resume_scheduling() if off else client.pause_scheduling(" ".join(why))
    if as_json:
        sys.stdout.buffer.write(msgspec.json.encode(found) + b"\n")
    else:
        tell("pause.on" if found.paused else "pause.off")
