"""`stoker __complete`: what could stand at the end of a line that is being typed.

Called by the scripts of completion.py, never by a person. Understands the line as click would
(commands, options and their values, `--`), and says nothing on errors. What a value could be is
candidates.py's.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import click

from .candidates import FILE, FOLDER, Candidate, for_parameter
from .command import about, context_of
from .say import words


def answer(root: click.Group, args: Sequence[str]) -> int:
    """Print what could follow. `args`: the shell, and the words so far (bash: the line so far)."""
    try:
        shell, *typed = args
        typed = _split(typed[0])[1:] if shell == "bash" else typed
        found = list(complete(root, typed or [""]))
    except Exception:
        return 0  # whatever it was: nobody wants to read it in the middle of a line
    kept = _behind_break(typed[-1]) if shell == "bash" and typed else 0
    lines = (f"{one.kind}\t{one.value[kept:]}\t{_on_one_line(one.about)}\n" for one in found)
    with contextlib.suppress(OSError):  # the shell has stopped listening
        sys.stdout.write("".join(lines))
        sys.stdout.flush()
    return 0


def _on_one_line(text: str) -> str:
    return text.replace("\t", " ").replace("\n", " ")


class Place(NamedTuple):
    """Where the line ends: in which command, what was given, and what is expected there."""

    ctx: click.Context
    given: tuple[str, ...]
    """Arguments so far, without options and their values."""
    options: tuple[str, ...]
    """Options so far, as they were typed."""
    option: click.Option | None
    """The option whose value is being typed."""
    exact: bool
    """`--` was typed, or options are over."""


def complete(root: click.Group, typed: Sequence[str]) -> Iterator[Candidate]:
    """What could stand in place of the last word."""
    *before, last = typed
    place = _place(root, before)
    prefix = ""
    if place.option is None and last.startswith("--") and "=" in last and not place.exact:
        name, _, last = last.partition("=")
        prefix = f"{name}="
        place = place._replace(option=_options(place.ctx).get(name))
    for one in _at(place, last):
        if one.kind in (FILE, FOLDER):
            yield one
        elif one.value.startswith(last):
            yield one._replace(value=prefix + one.value)


def _place(root: click.Group, typed: Sequence[str]) -> Place:
    place = Place(click.Context(root, info_name="stoker"), (), (), None, False)
    for word in typed:
        if place.option is not None:
            place = place._replace(option=None)
        elif place.exact:
            place = place._replace(given=(*place.given, word))
        elif word == "--":
            place = place._replace(exact=True)
        elif word.startswith("-") and word != "-":
            value_of = _awaits_value(place.ctx, word)
            place = place._replace(options=(*place.options, word), option=value_of)
        else:
            place = _after_word(place, word)
    return place


def _after_word(place: Place, word: str) -> Place:
    """Behind a word that is no option: a command of a group, or an argument."""
    if isinstance(place.ctx.command, click.Group):
        inner = place.ctx.command.get_command(place.ctx, word)
        if inner is None:
            raise LookupError(word)
        return Place(context_of(inner, place.ctx, word), (), (), None, False)
    is_over = not place.ctx.command.context_settings.get("allow_interspersed_args", True)
    return place._replace(given=(*place.given, word), exact=is_over)


def _awaits_value(ctx: click.Context, word: str) -> click.Option | None:
    """The option that this word names, if its value comes next."""
    if "=" in word:
        return None
    name = word if word.startswith("--") else f"-{word[-1]}"
    found = _options(ctx).get(name)
    return None if found is None or found.is_flag or found.count else found


def _options(ctx: click.Context) -> dict[str, click.Option]:
    return {
        name: parameter
        for parameter in ctx.command.get_params(ctx)
        if isinstance(parameter, click.Option) and not parameter.hidden
        for name in (*parameter.opts, *parameter.secondary_opts)
    }


def _at(place: Place, last: str) -> Iterator[Candidate]:
    if place.option is not None:
        yield from for_parameter(place.ctx, place.option, place.given, place.options, last)
    elif last.startswith("-") and not place.exact:
        for name, option in _options(place.ctx).items():
            if name.startswith("--") or last == name:
                yield Candidate(name, about(option))
    elif isinstance(place.ctx.command, click.Group):
        yield from _commands(place.ctx, place.ctx.command)
    else:
        argument = _argument(place)
        if argument is not None:
            yield from for_parameter(place.ctx, argument, place.given, place.options, last)


def _commands(ctx: click.Context, group: click.Group) -> Iterator[Candidate]:
    for name in group.list_commands(ctx):
        # below a command there are few, and the command's own line says what they are for
        key = name if ctx.parent is None else str(ctx.info_name)
        yield Candidate(name, words(f"help.{key}"))


def _argument(place: Place) -> click.Argument | None:
    """The one that the next word belongs to."""
    arguments = [p for p in place.ctx.command.params if isinstance(p, click.Argument)]
    for number, argument in enumerate(arguments):
        if argument.nargs == -1 or number >= len(place.given):
            return argument
    return None


def _split(line: str) -> list[str]:
    """A line as bash would split it, whatever is unfinished in it; the last word may be empty."""
    from click.shell_completion import split_arg_string

    found = split_arg_string(line)
    return [*found, ""] if not line or (line[-1].isspace() and not line.endswith("\\ ")) else found


def _behind_break(word: str) -> int:
    """bash replaces only what follows the last `=` or `:`, so only that is answered."""
    return max(word.rfind("="), word.rfind(":")) + 1
