"""`stoker config show`: the settings in force, and where each came from."""

from __future__ import annotations

import dataclasses
import json
import os

import click

from stoker.config import Settings, load, shown
from stoker.text import about_field

from .command import CONTEXT, Command, Group, json_option
from .command import command as declare
from .say import language, tell, words
from .screen import clean, table, terminal_width


class Config(Group, Command):
    """`config` has one command so far."""


class ShowConfig(Command):
    key = "config"


@declare("show", cls=ShowConfig)
@json_option
def show(as_json: bool) -> None:
    loaded = load(os.environ, {})
    values = {f.name: shown(f, loaded.settings) for f in dataclasses.fields(Settings)}
    if as_json:
        facts = {k: {"value": _plain(v), "from": loaded.sources[k]} for k, v in values.items()}
        print(json.dumps(facts, ensure_ascii=False))
        return
    about = {f.name: f.metadata["about"] for f in dataclasses.fields(Settings)}
    rows = [
        [name, clean(str(value)), clean(_source(loaded.sources[name])), _about(name, about[name])]
        for name, value in values.items()
    ]
    head = [words(f"config.{name}") for name in ("name", "value", "from", "about")]
    for line in table([head, *rows], colours=[["bold"] * 4], columns=terminal_width()):
        print(line)
    tell("config.live")


@click.group(
    "config",
    cls=Config,
    invoke_without_command=True,
    context_settings=CONTEXT,
)
@click.pass_context
def command(ctx: click.Context) -> None:
    if ctx.invoked_subcommand is None:
        print(ctx.get_help())


command.add_command(show)


def _plain(value: object) -> object:
    return value if isinstance(value, int | str | bool) else str(value)


def _source(source: str) -> str:
    kind, space, rest = source.partition(" ")
    return words(f"config.source_{kind}") + space + rest


def _about(name: str, description: str) -> str:
    return about_field(f"setting.{name}", description, language())
