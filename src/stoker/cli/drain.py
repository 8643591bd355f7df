"""`stoker drain`: nothing new starts on a node, until `stoker resume`. What runs there goes on."""

from __future__ import annotations

import sys

import click
import msgspec

from .client import Client
from .command import command as declare
from .command import json_option, option
from .say import tell


@declare("drain")
@click.argument("node", metavar="NODE")
@option("--why", default="", metavar="TEXT")
@json_option
def command(node: str, why: str, as_json: bool) -> None:
    with Client() as client:
        drained = client.drain(node, why)
    if as_json:
        sys.stdout.buffer.write(msgspec.json.encode(drained) + b"\n")
    else:
        tell("drain.done", node=drained.name)
