"""`stoker submit`: hands over a task.

Three forms: exact arguments (`-- ARGV...`), a shell line (`-c LINE`), a script file. Everything
arrives byte for byte; text that is not UTF-8 is refused here, naming the field, because JSON cannot
carry it. Once the server has said yes, nothing that fails afterwards makes this command fail.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

import click
import msgspec
from typing_extensions import override

from stoker import wire
from stoker.client import Client, Refused, ServerUnreachable
from stoker.domain.task import TaskSpec

from .command import CONTEXT, Command, json_option, option
from .options import spec_options, typed_values
from .say import refuse, tell, words
from .screen import clean
from .script import find_script


class Submit(Command):
    """Knows whether `--` was typed: after it everything is exact."""

    @override
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        given = list(args)
        rest = super().parse_args(ctx, args)
        argv = ctx.params.get("argv", ())
        before = len(given) - len(argv) - 1
        ctx.obj = before >= 0 and given[before] == "--"
        return rest


@click.command("submit", cls=Submit, context_settings=CONTEXT | {"allow_interspersed_args": False})
@option("-c", "--command", "line", metavar="LINE")
@spec_options
@json_option
@click.argument("argv", nargs=-1, type=click.UNPROCESSED)
def command(line: str | None, argv: tuple[str, ...], as_json: bool, **given: Any) -> None:
    ctx = click.get_current_context()
    values = _values(ctx, line, argv, given)
    for field, text in _texts(values):
        if not _is_utf8(text):
            refuse("usage.not_utf8", field)
    spec = TaskSpec(**values)
    with Client() as client:
        created = client.submit(spec)
        if as_json:
            sys.stdout.write(msgspec.json.encode(created).decode() + "\n")
        else:
            _report(client, created)


def build_values(
    given: dict[str, Any], script_given: dict[str, Any], command: str | tuple[str, ...], name: str
) -> dict[str, Any]:
    """The fields of the task, with paths made absolute. What was typed wins over the script."""
    values = typed_values(_merged(script_given, given))
    values["command"] = command
    if name:
        values.setdefault("name", name)
    if values.get("gpu_ids"):  # who names the cards has said how many
        values.setdefault("gpus", len(values["gpu_ids"]))
    workdir = os.path.join(_current_folder(), _expanded(values.get("workdir", "")))
    values["workdir"] = workdir.rstrip("/") or "/"
    for stream in ("stdout", "stderr"):
        if stream in values:
            values[stream] = _output_path(values[stream], values["workdir"])
    return values


def _values(
    ctx: click.Context, line: str | None, argv: tuple[str, ...], given: dict[str, Any]
) -> dict[str, Any]:
    if line is not None and argv:
        refuse("usage.two_commands", "command")
    if line is not None:
        return build_values(given, {}, line, "")
    if not argv:
        refuse("usage.no_task", "command")
    script = None if ctx.obj else find_script(argv)
    if script is None:
        return build_values(given, {}, argv, "")
    inner = ctx.command.make_context("submit", list(script.options), parent=ctx.parent)
    said = dict(inner.params)
    if said.pop("line") is not None or said.pop("argv") or said.pop("as_json"):
        refuse("script.only_options", "command")
    return build_values(given, said, script.text, script.name)


def _merged(first: dict[str, Any], then: dict[str, Any]) -> dict[str, Any]:
    """As if the words of both stood on one line, one after the other."""
    merged = dict(first)
    for name, value in then.items():
        if isinstance(value, tuple):
            merged[name] = tuple(merged.get(name) or ()) + value
        elif value is not None:
            merged[name] = value
    return merged


def _current_folder() -> str:
    """As the person spells it: a shell keeps the name of a link in PWD."""
    try:
        real = os.getcwd()
    except OSError:
        refuse("usage.no_folder", "workdir")
    spelled = os.environ.get("PWD", "")
    try:
        if spelled.startswith("/") and os.path.samefile(spelled, real):
            return spelled
    except OSError:
        pass
    return real


def _expanded(path: str) -> str:
    return os.path.expanduser(path) if path.startswith("~/") or path == "~" else path


def _output_path(value: str, workdir: str) -> str:
    if value in ("", "merge", "discard", "+"):
        return value
    plus, path = ("+", value[1:]) if value.startswith("+") else ("", value)
    return plus + os.path.join(workdir, _expanded(path))


def _texts(values: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for field, value in values.items():
        if isinstance(value, str):
            yield field, value
        elif isinstance(value, tuple):
            for number, item in enumerate(value):
                if isinstance(item, str):
                    yield f"{field}[{number}]", item
        elif isinstance(value, dict):
            for key, item in value.items():
                yield field, key
                for text in (item,) if isinstance(item, str) else item:
                    yield f"{field}.{key}", text


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _report(client: Client, created: wire.Created) -> None:
    """What became of it at once. It is accepted whatever happens to this question."""
    try:
        found = client.task(created.id)
    except (Refused, ServerUnreachable):
        tell("submit.done", id=created.id)
        return
    task = found.task
    if task.state == "HELD":
        tell("submit.held", id=task.id)
        return
    if task.state == "QUEUED":
        why = " ".join(clean(reason.message) for reason in found.waits)
        print(words("submit.waits", id=task.id, why=why).rstrip())
    elif task.state == "FINISHED":
        tell("submit.ended", id=task.id, why=task.message or "")
    else:
        where = task.node or "?"
        if task.gpu_ids:
            where += ", GPU " + ", ".join(map(str, task.gpu_ids))
        tell("submit.starts", id=task.id, where=where)
    print(words("submit.hint", id=task.id))
