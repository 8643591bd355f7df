"""`stoker resume`: a drained node takes tasks again."""

from __future__ import annotations

import sys

import click
import msgspec

from .client import Client
from .command import command as declare
from .command import json_option
from .say import tell


@declare("resume")
@click.argument("node", metavar="NODE")
@json_option
def command(node: str, as_json: bool) -> None:
    with Client() as client:
        resumed = client.resume(node)
    if as_json:
        sys.stdout.buffer.write(msgspec.json.encode(resumed) + b"\n")
    else:
        tell("resume.done", node=resumed.name)
