"""`stoker me`: who the server takes us for, and what every person decides alone."""

from __future__ import annotations

import sys
from typing import Any

import click
import msgspec

from stoker.domain.task import NOT_YET, fields
from stoker.wire_access import Me

from .client import Client
from .command import CONTEXT, Command, Group, json_option, option
from .command import command as declare
from .options import flag_of, spec_options, typed_values
from .people import detail_rows
from .say import refuse, tell, words
from .screen import table

SETTINGS = ("language", "email", "notify")


class Myself(Group, Command):
    """`me` has commands of its own."""


class Set(Command):
    key = "me_set"


class Default(Command):
    key = "me_default"


@declare("set", cls=Set)
@click.argument("setting", metavar="|".join(SETTINGS))
@click.argument("value", metavar="VALUE")
@json_option
def set_one(setting: str, value: str, as_json: bool) -> None:
    if setting not in SETTINGS:
        refuse("people.no_setting", "setting", setting=setting, choices=", ".join(SETTINGS))
    chosen: object = value
    if setting == "notify":
        chosen = [one.strip() for one in value.split(",") if one.strip() not in ("", "none")]
    elif setting == "language" and value == "auto":
        chosen = ""
    with Client() as client:
        _show(client.change_me(**{setting: chosen}), as_json)


@declare("default", cls=Default)
@click.argument("field", metavar="OPTION")
@click.argument("values", metavar="VALUE", nargs=-1)
@option("--unset", "forget", is_flag=True, help="people.opt_unset")
@json_option
def set_default(field: str, values: tuple[str, ...], forget: bool, as_json: bool) -> None:
    name = _field(field)
    if forget == bool(values):
        refuse("people.value_or_unset", "value")
    typed = {} if forget else _typed(name, values)
    with Client() as client:
        before = client.me().person.defaults
        kept = {key: value for key, value in before.items() if key != name}
        _show(client.change_me(defaults=kept | typed), as_json)


@click.group("me", cls=Myself, invoke_without_command=True, context_settings=CONTEXT)
@json_option
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    if ctx.invoked_subcommand is None:
        with Client() as client:
            _show(client.me(), as_json)


command.add_command(set_one)
command.add_command(set_default)


def _show(me: Me, as_json: bool) -> None:
    if as_json:
        sys.stdout.buffer.write(msgspec.json.encode(me) + b"\n")
        return
    if me.mode == "one_person":
        tell("people.me_alone", name=me.person.name)
    rows = detail_rows(me.person)
    rows.append([words("people.scopes"), ", ".join(me.scopes)])
    if me.expires_at is not None:
        rows.append([words("people.until"), f"{me.expires_at.astimezone():%Y-%m-%d %H:%M}"])
    for line in table(rows):
        print(line)


def _field(typed: str) -> str:
    """The field behind what a person calls it: `time-limit` is `time_limit_s`."""
    found = {
        called: field.name
        for field in fields()
        for called in (field.name, flag_of(field.name), flag_of(field.name)[2:])
        if field.name != "command" and field.name not in NOT_YET
    }
    if typed not in found:
        refuse("people.no_option", "option", option=typed)
    return found[typed]


@click.command(context_settings=CONTEXT)
@spec_options
def _fields(**given: Any) -> None:
    """The options of `submit`: a default is typed as it is typed there."""


def _typed(name: str, values: tuple[str, ...]) -> dict[str, Any]:
    flag = flag_of(name)
    kind = next(field.kind for field in fields() if field.name == name)
    if kind is bool:
        if values not in (("true",), ("false",)):
            refuse("people.true_or_false", flag[2:])
        arguments = [flag if values == ("true",) else f"--no-{flag[2:]}"]
    else:
        arguments = [part for value in values for part in (flag, value)]
    context = _fields.make_context("default", arguments)
    return typed_values(context.params)
