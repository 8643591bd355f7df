"""`stoker audit`: who did what, and whether that trail is as it was written.

`verify` asks the server to look at every act, or looks at an exported file by itself: then nobody
has to be believed. Whatever comes from the trail is made harmless before a terminal sees it.
"""

from __future__ import annotations

import json
import os
import sys
from itertools import islice

import click
import msgspec

from stoker.wire_admin import ActView, ChainView

from .client import Client
from .command import CONTEXT, Command, Group, json_option, option
from .command import command as declare
from .options import Whole
from .say import refuse, tell, words
from .screen import clean, table, terminal_width
from .shown import clock

MOST_SHOWN = 50


class Audit(Group, Command):
    """Commands about the audit trail."""


class ListAudit(Command):
    key = "audit_ls"


class VerifyAudit(Command):
    key = "audit_verify"


class ExportAudit(Command):
    key = "audit_export"


@declare("ls", cls=ListAudit)
@option("--who", metavar="PERSON")
@option("--act", metavar="ACT")
@option("-n", "--most", type=Whole(), help="opt.most_acts")
@json_option
def ls(who: str | None, act: str | None, most: int | None, as_json: bool) -> None:
    most = MOST_SHOWN if most is None else most
    if most < 1:
        refuse("usage.at_least_one", "most")
    with Client() as client:
        found = list(islice(client.audit(who=who, act=act, page=min(most, 500)), most))
    if as_json:
        sys.stdout.buffer.write(msgspec.json.encode(found) + b"\n")
        return
    if not found:
        tell("audit.none")
        return
    head = [words(f"audit.{name}") for name in ("number", "at", "who", "act", "on")]
    rows = [[str(a.seq), clock(a.at), clean(a.who), clean(a.act), _about(a)] for a in found]
    for line in table([head, *rows], colours=[["bold"] * 5], columns=terminal_width()):
        print(line)


@declare("verify", cls=VerifyAudit)
@option("--head", metavar="HASH")
@option("--file", metavar="FILE", help="opt.audit_file")
@json_option
def verify(head: str | None, file: str | None, as_json: bool) -> int:
    if file is not None:
        found = _verified(file, (head or "").lower())
    else:
        with Client() as client:
            found = client.verify_audit(head)
    is_sound = found.broken is None and (head is None or found.noted is not None)
    if as_json:
        sys.stdout.buffer.write(msgspec.json.encode(found) + b"\n")
        return 0 if is_sound else 1
    if found.broken is not None:
        tell("audit.broken", number=found.broken, count=found.count)
        return 1
    tell("audit.sound", count=found.count, head=found.head)
    if head is None:
        return 0
    if found.noted is None:
        tell("audit.head_gone", head=head)
        return 1
    tell("audit.head_there", number=found.noted)
    return 0


@declare("export", cls=ExportAudit)
@option("-o", "--output", metavar="FILE", help="opt.audit_output")
@json_option
def export(output: str | None, as_json: bool) -> None:
    if output is not None and os.path.exists(output):
        refuse("audit.exists", "output", path=output)
    with Client() as client:
        pieces = client.export_audit()
        if output is None:
            for piece in pieces:
                sys.stdout.buffer.write(piece)
            return
        beside = f"{output}.part"
        with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.writelines(pieces)
        os.replace(beside, output)
    if as_json:
        print(json.dumps({"path": output}, ensure_ascii=False))
    else:
        tell("audit.exported", path=output)


@click.group("audit", cls=Audit, invoke_without_command=True, context_settings=CONTEXT)
@click.pass_context
def command(ctx: click.Context) -> None:
    if ctx.invoked_subcommand is None:
        print(ctx.get_help())


for _one in (ls, verify, export):
    command.add_command(_one)


def _about(act: ActView) -> str:
    """What it was done to, with what values, from where."""
    parts = [act.on] if act.on else []
    values = dict(act.values)
    if {"old", "new"} <= values.keys():
        parts.append(f"{_json(values.pop('old'))} → {_json(values.pop('new'))}")
    parts += [f"{name}={_json(value)}" for name, value in values.items() if value not in ("", None)]
    if act.outcome != "done":
        parts.append(f"({act.outcome})")
    if act.origin:
        parts.append(words("audit.from", origin=act.origin))
    return clean("  ".join(parts))


def _json(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _verified(path: str, noted: str) -> ChainView:
    """An exported trail, looked at here."""
    from stoker.domain.trail import Trail

    trail, broken = Trail(noted), None
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            try:
                row = msgspec.json.decode(line)
                follows = trail.follows(row["seq"], row["body"], row["hash"])
            except (msgspec.DecodeError, KeyError, TypeError):
                refuse("audit.not_a_trail", "file", path=path, line=number)
            if not follows:
                broken = trail.count + 1
                break
    return ChainView(count=trail.count, head=trail.head, broken=broken, noted=trail.noted)
