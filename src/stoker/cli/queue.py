"""`stoker queue`: the queues there are, what they allow, and what waits in them."""

from __future__ import annotations

import sys
from typing import Any

import click
import msgspec

from stoker.domain.queue import QueueTerms
from stoker.wire_queues import QueueView

from .client import Client
from .command import CONTEXT, Command, Group, json_option, option
from .command import command as declare
from .queue_terms import (
    cards_text,
    changed,
    facts,
    limit_text,
    notes,
    term_options,
    term_texts,
    typed_terms,
)
from .say import refuse, tell, words
from .screen import clean, colour, table, terminal_width


class Queues(Group, Command):
    """`queue` has commands of its own."""


class ListQueues(Command):
    key = "queue-ls"


class ShowQueue(Command):
    key = "queue-show"


class AddQueue(Command):
    key = "queue-add"


class EditQueue(Command):
    key = "queue-edit"


class RemoveQueue(Command):
    key = "queue-rm"


@declare("ls", cls=ListQueues)
@json_option
def list_command(as_json: bool) -> None:
    with Client() as client:
        found = client.queues()
    if as_json:
        _write(found)
        return
    if not found:
        tell("queue.none")
        return
    columns = ("name", "priority", "waiting", "running", "cards", "limit", "terms")
    head = [words(f"queue.{name}") for name in columns]
    rows = [head, *map(_row, found)]
    tints = [["dim"] * len(head)]
    for line in table(rows, colours=tints, columns=terminal_width(), wrapped=True):
        print(line)


@declare("show", cls=ShowQueue)
@click.argument("queue", metavar="QUEUE")
@json_option
def show_command(queue: str, as_json: bool) -> None:
    with Client() as client:
        found = client.queue(queue)
    if as_json:
        _write(found)
        return
    print(colour(clean(found.name), "bold"))
    rows = [list(pair) for pair in facts(found)]
    for line in table(rows, columns=terminal_width(), indent="  ", wrapped=True):
        print(line)
    for note in notes(found):
        print("  " + note)


@declare("add", cls=AddQueue)
@click.argument("name", metavar="NAME")
@term_options
@json_option
def add_command(name: str, as_json: bool, **given: Any) -> None:
    with Client() as client:
        made = client.put_queue(name, changed(QueueTerms(), typed_terms(given)), 0)
    _told("queue.added", made, as_json)


@declare("edit", cls=EditQueue)
@click.argument("queue", metavar="QUEUE")
@term_options
@json_option
def edit_command(queue: str, as_json: bool, **given: Any) -> None:
    typed = typed_terms(given)
    if not typed:
        refuse("queue.same")
    with Client() as client:
        before = client.queue(queue)
        after = client.put_queue(queue, changed(before.terms, typed), before.version)
    _told("queue.changed", after, as_json)


@declare("rm", cls=RemoveQueue)
@click.argument("queue", metavar="QUEUE")
@option("--move-to", metavar="QUEUE", default="", help="opt.queue-move-to")
@json_option
def remove_command(queue: str, move_to: str, as_json: bool) -> None:
    with Client() as client:
        gone = client.remove_queue(queue, move_to=move_to)
    if as_json:
        _write(gone)
    elif move_to:
        tell("queue.removed_moved", name=gone.name, count=gone.moved, target=move_to)
    else:
        tell("queue.removed", name=gone.name)


@click.group("queue", cls=Queues, invoke_without_command=True, context_settings=CONTEXT)
@click.pass_context
def command(ctx: click.Context) -> None:
    if ctx.invoked_subcommand is None:
        print(ctx.get_help())


for below in (list_command, show_command, add_command, edit_command, remove_command):
    command.add_command(below)


def _row(queue: QueueView) -> list[str]:
    terms = queue.terms
    return [
        clean(queue.name), str(terms.priority), str(queue.waiting), str(queue.running),
        cards_text(queue), limit_text(terms), ", ".join(term_texts(queue)) or "-",
    ]  # fmt: skip


def _told(key: str, queue: QueueView, as_json: bool) -> None:
    if as_json:
        _write(queue)
        return
    tell(key, name=queue.name)
    for note in notes(queue):
        print(note)


def _write(value: object) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(value) + b"\n")
