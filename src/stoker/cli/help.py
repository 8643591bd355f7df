"""`stoker help`: what `--help` prints, for those who type it the other way round."""

from __future__ import annotations

import json

import click

from .command import command as declare
from .command import context_of, json_option


@declare("help")
@click.argument("names", nargs=-1, metavar="[COMMAND]")
@json_option
@click.pass_context
def command(ctx: click.Context, names: tuple[str, ...], as_json: bool) -> None:
    text = _help_of(ctx.find_root(), names)
    print(json.dumps({"help": text}, ensure_ascii=False) if as_json else text)


def _help_of(ctx: click.Context, names: tuple[str, ...]) -> str:
    """Of the command that these words call; an unknown one is refused as ever."""
    for name in names:
        if not isinstance(ctx.command, click.Group):
            break
        _, found, _ = ctx.command.resolve_command(ctx, [name])
        assert found is not None  # resolve_command refuses what it does not know
        ctx = context_of(found, ctx, name)
    return ctx.get_help()
