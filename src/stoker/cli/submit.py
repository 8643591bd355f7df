"""`stoker submit`: hands over a task.

Three forms: exact arguments (`-- ARGV...`), a shell line (`-c LINE`), a script file. Everything
arrives byte for byte; text that is not UTF-8 is refused here, naming the field, because JSON cannot
carry it. Once the server has said yes, nothing that fails afterwards makes this command fail.
`--dry-run` hands over nothing and says what would happen.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import click
import msgspec

from stoker import wire
from stoker.client import Refused, ServerUnreachable
from stoker.domain.task import TaskSpec

from .client import Client
from .command import CONTEXT, Exact, json_option, option
from .environment import add_active, where
from .options import check_utf8, spec_options, typed_values
from .paths import absolute_folder, output_path
from .reasons import told
from .say import refuse, tell, words
from .script import find_script
from .shown import placed_on, progress, spec_of


@click.command("submit", cls=Exact, context_settings=CONTEXT | {"allow_interspersed_args": False})
@option("-c", "--command", "line", metavar="LINE")
@spec_options
@option("--dry-run", is_flag=True)
@json_option
@click.argument("argv", nargs=-1, type=click.UNPROCESSED)
def command(
    line: str | None, argv: tuple[str, ...], dry_run: bool, as_json: bool, **given: Any
) -> None:
    ctx = click.get_current_context()
    values = _values(ctx, line, argv, given)
    with Client() as client:
        client.says_pause = False
        is_active = add_active(values, client, os.environ)
        check_utf8(values)
        spec = TaskSpec(**values)
        runs_in = where(spec.environment, is_active=is_active)
        if dry_run:
            _preview(client.preview(spec, said=values), spec, runs_in, as_json)
            return
        created = client.submit(spec, said=values)
        if as_json:
            sys.stdout.write(msgspec.json.encode(created).decode() + "\n")
        else:
            _report(client, created, runs_in)


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
    values["workdir"] = absolute_folder(values.get("workdir", ""))
    for stream in ("stdout", "stderr"):
        if stream in values:
            values[stream] = output_path(values[stream], values["workdir"], stream)
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
    if any([said.pop("line") is not None, *map(said.pop, ("argv", "as_json", "dry_run"))]):
        refuse("script.only_options", "command")
    return build_values(given, said, script.text, script.name)


def _merged(first: dict[str, Any], then: dict[str, Any]) -> dict[str, Any]:
    """As if the words of both stood on one line, one after the other."""
    merged = dict(first)
    for name, value in then.items():
        if name == "sweep":  # a name that was typed wins over the script's
            typed = {pair[0] for pair in value}
            merged[name] = *(pair for pair in first.get(name, ()) if pair[0] not in typed), *value
        elif isinstance(value, tuple):
            merged[name] = tuple(merged.get(name) or ()) + value
        elif value is not None:
            merged[name] = value
    return merged


def _preview(found: wire.WhyView, spec: TaskSpec, runs_in: str | None, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(msgspec.json.encode(found).decode() + "\n")
        return
    from .sweeps import describe_elements
    from .why import describe_preview

    for line in (*describe_elements(spec), *describe_preview(found)):
        print(line)
    if runs_in is not None:
        print(runs_in)


def _report(client: Client, created: wire.Created, runs_in: str | None) -> None:
    """What became of it at once. It is accepted whatever happens to this question."""
    is_followed = _report_state(client, created)
    if runs_in is not None:
        print(runs_in)
    if is_followed:
        print(words("submit.hint", id=created.id))


def _report_state(client: Client, created: wire.Created) -> bool:
    """Whether there is one output to follow."""
    try:
        found = client.task(created.id)
    except (Refused, ServerUnreachable):
        tell("submit.done", id=created.id)
        return False
    task = found.task
    if task.state == "HELD":
        tell("submit.held", id=task.id)
        return False
    if task.array is not None:
        from .sweeps import made_of

        made = made_of(spec_of(task), task.array.size)
        tell("submit.array", id=task.id, made=made, progress=progress(task.array))
        return False
    if task.state == "QUEUED":
        print(words("submit.waits", id=task.id, why=" ".join(told(found.waits))).rstrip())
    elif task.state == "FINISHED":
        tell("submit.ended", id=task.id, why=task.message or "")
    else:
        tell("submit.starts", id=task.id, where=placed_on(task.node, task.gpu_ids))
    return True
