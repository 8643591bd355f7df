"""What every command is built from: click without its noise, and help in two languages.

`help=` of a command or option is a key of the catalogue, resolved when somebody reads it. Click
does the parsing; usage, help and refusals are ours (refuse.py), so that they align with wide
characters and speak Chinese.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click
from typing_extensions import override

from stoker.text import about_field

from .say import language, refuse, words
from .screen import colour, pad, table, terminal_width, width

F = TypeVar("F", bound=Callable[..., Any])


HELP = ["-h", "--help"]
MOST_ALIGNED = 46
"""Columns of an example; a longer one does not push the notes of the others aside."""
CONTEXT: dict[str, Any] = {"help_option_names": HELP, "allow_extra_args": True}
"""Of every command. What was typed too much is refused by `Command.invoke`, in our words."""


class Command(click.Command):
    """A command whose help is `help.KEY.usage`, `.more` and `.examples`; KEY is its name."""

    key = ""

    @override
    def invoke(self, ctx: click.Context) -> Any:
        if ctx.args and not isinstance(self, click.Group):
            refuse("usage.extra", words=" ".join(ctx.args))
        return super().invoke(ctx)

    @override
    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        name = self.key or self.name
        lines = [words(f"help.{name}.usage"), "", words(f"help.{name}.more"), ""]
        lines += [heading("help.options"), *_options(self, ctx), ""]
        lines += [heading("help.examples_heading"), *_examples(words(f"help.{name}.examples"))]
        formatter.write("\n".join(lines) + "\n")

    @override
    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        option = super().get_help_option(ctx)
        if option is not None:
            option.help = "opt.help"
        return option


class Exact(Command):
    """Knows whether `--` was typed (`ctx.obj`): after it everything is exact."""

    @override
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        given = list(args)
        rest = super().parse_args(ctx, args)
        argv = ctx.params.get("argv", ())
        before = len(given) - len(argv) - 1
        ctx.obj = before >= 0 and given[before] == "--"
        return rest


class Group(click.Group):
    """Commands below a command; an unknown one is refused with the nearest name."""

    @override
    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known = self.list_commands(ctx)
        if args[0] not in known:
            from difflib import get_close_matches

            near = next(iter(get_close_matches(args[0], known, 1)), "")
            refuse("usage.no_command_near" if near else "usage.no_command", name=args[0], near=near)
        return super().resolve_command(ctx, args)


def command(name: str, **how: Any) -> Callable[[Callable[..., Any]], Command]:
    """Declares the function as the command `name`."""
    how.setdefault("cls", Command)
    return click.command(name, context_settings=CONTEXT, **how)


def context_of(command: click.Command, parent: click.Context, name: str) -> click.Context:
    """A command as it is when it was called by this name, without anything having been parsed."""
    return click.Context(command, parent=parent, info_name=name, help_option_names=HELP)


def option(*names: str, help: str = "", **how: Any) -> Callable[[F], F]:
    """An option; its help is `opt.<its first long name>` unless said."""
    long = next(name for name in names if name.startswith("--"))
    return click.option(*names, help=help or f"opt.{long[2:].partition('/')[0]}", **how)


def json_option(function: F) -> F:
    """`--json`, which every command has."""
    return option("--json", "as_json", is_flag=True)(function)


def heading(key: str) -> str:
    """What stands above a part of a help text."""
    return colour(words(key), "bold")


def _options(command: click.Command, ctx: click.Context) -> list[str]:
    rows = []
    for parameter in command.get_params(ctx):
        if isinstance(parameter, click.Option) and not parameter.hidden:
            names = ", ".join([*parameter.opts, *parameter.secondary_opts])
            value = "" if parameter.is_flag else f" {parameter.make_metavar(ctx)}"
            rows.append([names + value, about(parameter)])
    return table(rows, indent="  ", columns=terminal_width(), wrapped=True)


def about(option: click.Option) -> str:
    key = option.help or ""
    if key.startswith("field."):
        from stoker.domain.task import fields

        field = next(field for field in fields() if f"field.{field.name}" == key)
        return about_field(key, field.meta.description or "", language())
    return words(key)


def _examples(text: str) -> list[str]:
    """One example per line, and beside it what it is for."""
    pairs = [line.partition("  # ")[::2] for line in text.split("\n")]
    noted = [width(typed) for typed, note in pairs if note]
    size = max((columns for columns in noted if columns <= MOST_ALIGNED), default=0)
    return [
        f"  {pad(typed, size)}  {colour(f'# {note}', 'dim')}" if note else f"  {typed}"
        for typed, note in pairs
    ]
