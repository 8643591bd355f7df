"""`stoker announce`: one line that everybody is shown; without a text, what is shown now."""

from __future__ import annotations

import sys

import click
import msgspec

from stoker.wire_admin import AnnouncementView

from .client import Client
from .command import command as declare
from .command import json_option, option
from .say import refuse, tell
from .shown import clock


@declare("announce")
@click.argument("text", metavar="[TEXT]", nargs=-1)
@option("--clear", is_flag=True)
@json_option
def command(text: tuple[str, ...], clear: bool, as_json: bool) -> None:
    if clear and text:
        refuse("announce.clear_without_text", "TEXT")
    with Client() as client:
        client.says_announcement = False
        found = _done(client, " ".join(text), clear)
    if as_json:
        sys.stdout.buffer.write(msgspec.json.encode(found) + b"\n")
    elif found.text is None:
        tell("announce.cleared" if clear else "announce.none")
    elif text:
        tell("announce.done", text=found.text)
    else:
        at = "?" if found.at is None else clock(found.at)
        tell("announce.shown", text=found.text, by=found.by or "?", at=at)


def _done(client: Client, text: str, clear: bool) -> AnnouncementView:
    if clear:
        return client.clear_announcement()
    return client.announce(text) if text else client.announced()
