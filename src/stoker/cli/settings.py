"""`stoker settings`: what the lab has decided, changed live. Values are typed as people say them:
`yes`, `2h`; what is allowed is said by the server."""

from __future__ import annotations

import re
import sys

import click
import msgspec

from stoker.text.amounts import duration
from stoker.wire_admin import SettingView

from .client import Client
from .command import CONTEXT, Command, Group, json_option
from .command import command as declare
from .say import language, refuse, tell, words
from .screen import clean, table, terminal_width

YES, NO = ("yes", "true", "on", "1"), ("no", "false", "off", "0")
_WHOLE = re.compile(r"-?[0-9]{1,18}", re.ASCII)


class Settings(Group, Command):
    """Commands about settings."""


class ListSettings(Command):
    key = "settings_ls"


class GetSetting(Command):
    key = "settings_get"


class SetSetting(Command):
    key = "settings_set"


class UnsetSetting(Command):
    key = "settings_unset"


@declare("ls", cls=ListSettings)
@json_option
def ls(as_json: bool) -> None:
    with Client() as client:
        found = client.settings()
    if as_json:
        sys.stdout.buffer.write(msgspec.json.encode(found) + b"\n")
        return
    head = [words(f"settings.{name}") for name in ("name", "value", "from", "about")]
    rows = [[one.name, shown(one, one.value), source(one), clean(one.about)] for one in found]
    tints = [
        ["bold"] * 4,
        *(["", "yellow" if s.source == "changed" else "", "", ""] for s in found),
    ]
    for line in table([head, *rows], colours=tints, columns=terminal_width()):
        print(line)
    tell("settings.relation")


@declare("get", cls=GetSetting)
@click.argument("name", metavar="SETTING")
@json_option
def get(name: str, as_json: bool) -> None:
    with Client() as client:
        found = _known(client, name)
    if as_json:
        sys.stdout.buffer.write(msgspec.json.encode(found) + b"\n")
    else:
        print(plain(found.value))


@declare("set", cls=SetSetting)
@click.argument("name", metavar="SETTING")
@click.argument("value", metavar="VALUE")
@json_option
def set_(name: str, value: str, as_json: bool) -> None:
    with Client() as client:
        before = _known(client, name)
        after = client.set_setting(name, _value(before, value))
    _tell(before, after, as_json)


@declare("unset", cls=UnsetSetting)
@click.argument("name", metavar="SETTING")
@json_option
def unset(name: str, as_json: bool) -> None:
    with Client() as client:
        before = _known(client, name)
        after = client.unset_setting(name)
    _tell(before, after, as_json)


@click.group("settings", cls=Settings, invoke_without_command=True, context_settings=CONTEXT)
@click.pass_context
def command(ctx: click.Context) -> None:
    if ctx.invoked_subcommand is None:
        print(ctx.get_help())


for _one in (ls, get, set_, unset):
    command.add_command(_one)


def shown(setting: SettingView, value: object) -> str:
    """For people: a time also as they say it."""
    if setting.name.endswith("_s") and isinstance(value, int) and value >= 60:
        return f"{value} ({duration(value, language())})"
    return plain(value)


def source(setting: SettingView) -> str:
    """Where its value comes from; of a changed one also what it would be."""
    if setting.source == "changed":
        return words("settings.from_changed", default=plain(setting.default))
    return words(f"settings.from_{setting.source}")


def plain(value: object) -> str:
    """As it can be typed again."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return clean(str(value))


def _known(client: Client, name: str) -> SettingView:
    found = {setting.name: setting for setting in client.settings()}
    if name not in found:
        from difflib import get_close_matches

        near = next(iter(get_close_matches(name, found, 1)), "")
        refuse("settings.no_near" if near else "settings.no", name, near=near)
    return found[name]


def _value(setting: SettingView, typed: str) -> bool | int | str:
    """What was typed, as its kind wants it; what cannot be read so goes as it is, and is refused
    by the server in its words."""
    if setting.kind == "yes_no":
        if typed.lower() not in YES + NO:
            refuse("settings.yes_or_no", setting.name, value=typed)
        return typed.lower() in YES
    if setting.kind == "whole":
        if _WHOLE.fullmatch(typed):
            return int(typed)
        if setting.name.endswith("_s"):
            from .options import Quantity

            seconds: int = Quantity("s").convert(typed, None, None)
            return seconds
        refuse("usage.not_whole", setting.name, value=typed)
    return typed


def _tell(before: SettingView, after: SettingView, as_json: bool) -> None:
    if as_json:
        sys.stdout.buffer.write(msgspec.json.encode(after) + b"\n")
    elif before.value == after.value and before.source == after.source:
        tell("settings.same", name=after.name, value=shown(after, after.value))
    else:
        old, new = shown(before, before.value), shown(after, after.value)
        tell("settings.done", name=after.name, old=old, new=new, source=source(after))
