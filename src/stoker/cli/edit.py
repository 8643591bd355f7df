"""`stoker edit`: changes what a waiting task asks for; of a finished one a new task is made.

What was typed is laid over the task as it is, and sent with the version that was read: if somebody
changed it meanwhile, nothing happens. Every option of `submit` works here.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import click
import msgspec

from stoker.domain.task import Field, TaskSpec, fields
from stoker.wire import TaskView

from .client import Client
from .command import CONTEXT, Exact, json_option, option
from .environment import named
from .options import check_utf8, flag_of, spec_options, typed_values, words_of
from .paths import absolute_folder, output_path
from .say import refuse, words
from .screen import clean, table
from .shown import command_text, spec_of
from .task_id import TaskId


@click.command("edit", cls=Exact, context_settings=CONTEXT)
@click.argument("id", type=TaskId(), metavar="ID")
@option("-c", "--command", "line", metavar="LINE")
@spec_options
@option("--unset", multiple=True, metavar="FIELD")
@json_option
@click.argument("argv", nargs=-1, type=click.UNPROCESSED)
def command(
    id: str,
    line: str | None,
    argv: tuple[str, ...],
    unset: tuple[str, ...],
    as_json: bool,
    **given: Any,
) -> None:
    typed = _typed(line, argv, given)
    if not typed and not unset:
        refuse("edit.nothing")
    with Client() as client:
        task = client.task(id, waits=False).task
        if "hold" in typed and task.state != "FINISHED":
            refuse("edit.use_hold", "hold", id=id)
        before = spec_of(task)
        after = overlay(before, typed, unset)
        edited = task if after == before else client.edit(id, after, task.version)
    if as_json:
        sys.stdout.buffer.write(msgspec.json.encode(edited) + b"\n")
        return
    for said in _report(task, edited, changes(before, after)):
        print(said)


def overlay(spec: TaskSpec, typed: Mapping[str, Any], unset: Sequence[str]) -> TaskSpec:
    """`spec` with what was typed. Variables are added to those there are, lists replaced."""
    values: dict[str, Any] = {field.name: getattr(spec, field.name) for field in fields()}
    for name in unset:
        _unset(values, name)
    env = values["env"] | typed.get("env", {})
    values |= dict(typed) | {"env": env}
    if "gpu_ids" in typed and "gpus" not in typed:  # who names the cards has said how many
        values["gpus"] = max(values["gpus"], len(typed["gpu_ids"]))
    if "environment" in typed:
        values["environment"] = named(typed["environment"])
    if "workdir" in typed:
        values["workdir"] = absolute_folder(typed["workdir"])
    for stream in ("stdout", "stderr"):
        if stream in typed:
            values[stream] = output_path(typed[stream], values["workdir"], stream)
    return TaskSpec(**values)


def changes(before: TaskSpec, after: TaskSpec) -> list[list[str]]:
    """What is different: option, old value, new value."""
    rows = []
    for field in fields():
        old, new = getattr(before, field.name), getattr(after, field.name)
        if old != new:
            name = "command" if field.name == "command" else flag_of(field.name)
            rows.append([name, _text(field, old), "→", _text(field, new)])
    return rows


def _typed(line: str | None, argv: tuple[str, ...], given: dict[str, Any]) -> dict[str, Any]:
    if line is not None and argv:
        refuse("usage.two_commands", "command")
    if argv and not click.get_current_context().obj:  # a second id is no command
        refuse("usage.extra", words=" ".join(argv))
    typed = typed_values(given)
    if line is not None or argv:
        typed["command"] = line if line is not None else argv
    check_utf8(typed)
    return typed


def _unset(values: dict[str, Any], name: str) -> None:
    """Back to what it is when nobody says anything; `env.NAME` takes one variable away."""
    head, dot, variable = name.partition(".")
    if head == "env" and dot:
        if variable not in values["env"]:
            refuse("edit.no_variable", "unset", name=variable)
        values["env"] = {key: value for key, value in values["env"].items() if key != variable}
        return
    known = {flag_of(field.name)[2:]: field for field in fields() if field.name != "command"}
    field = known.get(name.removeprefix("--").replace("_", "-"))
    if field is None:
        near = next(iter(get_close_matches(name, known, 1)), "gpu-model")
        refuse("edit.no_field", "unset", name=name, near=near)
    values[field.name] = field.default


def _text(field: Field, value: Any) -> str:
    if field.name == "command":
        return clean(command_text(TaskSpec(command=value)))
    if field.kind is bool:
        return words("edit.yes" if value else "edit.no")
    if value == field.default:
        return "-"
    if field.name == "env":  # values may be secrets
        return clean(", ".join(value))
    return clean(" ".join(word for group in words_of(field, value) for word in group[1:]))


def _report(task: TaskView, edited: TaskView, rows: list[list[str]]) -> list[str]:
    if not rows:
        return [words("edit.same", id=task.id)]
    key = "edit.done" if edited.id == task.id else "edit.made"
    return [words(key, id=task.id, new=edited.id), *table(rows, indent="  ")]
