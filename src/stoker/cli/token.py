"""`stoker token`: tokens for programs. A token's text is shown once, when it is made."""

from __future__ import annotations

import sys
from typing import cast

import click
import msgspec

from stoker.domain.person import SCOPES, ScopeName

from .client import Client
from .command import CONTEXT, Command, Group, json_option, option
from .command import command as declare
from .options import Whole
from .say import refuse, tell, warn, words
from .screen import clean, table

USUAL: tuple[ScopeName, ...] = ("tasks:read", "tasks:write")


class Tokens(Group, Command):
    """`token` has commands of its own."""


class List(Command):
    key = "token_ls"


class New(Command):
    key = "token_new"


class Revoke(Command):
    key = "token_rm"


@declare("ls", cls=List)
@option("--person", metavar="NAME", default=None, help="people.opt_whose")
@json_option
def list_tokens(person: str | None, as_json: bool) -> None:
    with Client() as client:
        found = client.tokens(person)
    if as_json:
        sys.stdout.buffer.write(msgspec.json.encode(found) + b"\n")
        return
    names = ("id", "kind", "scopes", "used", "until", "label")
    rows = [[words(f"people.token_{name}") for name in names]]
    for one in found:
        here = words("people.token_here") if one.current else ""
        rows.append(
            [
                clean(one.id),
                words(f"people.token_{one.kind}"),
                ",".join(one.scopes),
                "-" if one.used_at is None else f"{one.used_at.astimezone():%Y-%m-%d %H:%M}",
                "-" if one.expires_at is None else f"{one.expires_at.astimezone():%Y-%m-%d}",
                " ".join(filter(None, [clean(one.label), here])),
            ]
        )
    for line in table(rows):
        print(line)


@declare("new", cls=New)
@click.argument("label", metavar="LABEL")
@option("--scope", "scopes", metavar="|".join(SCOPES), multiple=True, help="people.opt_scope")
@option("--days", type=Whole(), default=90, help="people.opt_days")
@json_option
def new_token(label: str, scopes: tuple[str, ...], days: int, as_json: bool) -> None:
    wrong = next((one for one in scopes if one not in SCOPES), "")
    if wrong:
        refuse("people.no_scope", "scope", scope=wrong, choices=", ".join(SCOPES))
    with Client() as client:
        made = client.new_token(label, cast("tuple[ScopeName, ...]", scopes) or USUAL, days=days)
    if as_json:
        sys.stdout.buffer.write(msgspec.json.encode(made) + b"\n")
        return
    print(made.token)
    warn("people.token_once")


@declare("rm", cls=Revoke)
@click.argument("tokens", metavar="ID...", nargs=-1, required=True)
@json_option
def revoke(tokens: tuple[str, ...], as_json: bool) -> None:
    with Client() as client:
        for id in dict.fromkeys(tokens):
            client.revoke_token(id)
            if not as_json:
                tell("people.token_gone", id=id)
    if as_json:
        sys.stdout.buffer.write(msgspec.json.encode(list(dict.fromkeys(tokens))) + b"\n")


@click.group("token", cls=Tokens, invoke_without_command=True, context_settings=CONTEXT)
@click.pass_context
def command(ctx: click.Context) -> None:
    if ctx.invoked_subcommand is None:
        print(ctx.get_help())


for one in (list_tokens, new_token, revoke):
    command.add_command(one)
