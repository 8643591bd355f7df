"""What a value could be, by what the parameter wants: tasks, nodes, queues, states, files.

Task ids are those that the command can act on. Whatever needs the server is asked for in a thread
that is not waited for longer than `PATIENCE_S`; without an answer there is nothing to offer.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple, TypeVar

import click

from .task_id import TaskId

WORD, OPEN, FILE, FOLDER = "word", "open", "file", "folder"
"""A whole word; one that may go on (no blank after it); a path, which the shell completes."""
PATIENCE_S = 1.0
MOST_TASKS = 100
STATES = (
    "held", "queued", "starting", "running", "stopping", "finished", "waiting", "live", "unfinished",
)  # fmt: skip
SHELLS = ("bash", "zsh", "fish")

ACTS_ON: dict[str, tuple[str, ...]] = {
    "cancel": ("unfinished",), "hold": ("QUEUED",), "release": ("HELD",), "edit": ("waiting",),
    "move": ("waiting",), "requeue": ("live",), "wait": ("unfinished",), "why": ("waiting",),
    "release --anyway": ("waiting",), "logs": ("live", "finished"), "delete": ("waiting", "finished"),
}  # fmt: skip
"""States of the tasks that a command is for; all of them for the others."""
FOR_ALL = ("ls", "show", "why", "wait")
"""Commands that are good for others' tasks too."""
PATHS = {"FILE": FILE, "PATH": FILE, "FOLDER": FOLDER, "DIR": FOLDER}
"""By what the usage calls it."""
PATH_NAMES = {"workdir": FOLDER, "stdout": FILE, "stderr": FILE, "argv": FILE}


T = TypeVar("T")


class Candidate(NamedTuple):
    value: str
    about: str = ""
    kind: str = WORD


def for_parameter(
    ctx: click.Context,
    parameter: click.Parameter,
    given: Sequence[str],
    options: Sequence[str],
    last: str,
) -> Iterator[Candidate]:
    """What could be given here. `given`, `options`: arguments and options that stand there already."""
    name = parameter.name or ""
    source = SOURCES.get(name)
    path = PATH_NAMES.get(name) or PATHS.get((parameter.metavar or "").strip("[].").upper())
    if isinstance(parameter.type, TaskId):
        verb = "release --anyway" if "--anyway" in options else str(ctx.info_name)
        yield from _tasks(verb, given)
    elif name == "after":
        yield from _predecessors(last)
    elif source is not None:
        yield from source(ctx)
    elif path is not None or isinstance(parameter.type, click.Path | click.File):
        yield Candidate("", kind=path or FILE)
    elif parameter.metavar and "|" in parameter.metavar:
        yield from (Candidate(choice) for choice in parameter.metavar.split("|"))


def _tasks(verb: str, given: Sequence[str]) -> Iterator[Candidate]:
    from stoker.client import Client
    from stoker.wire import TaskView

    from .shown import state, title

    def ask() -> list[TaskView]:
        with Client(timeout_s=PATIENCE_S) as client:
            states = ACTS_ON.get(verb, ())
            found = client.tasks(state=states, sort="-id", page=MOST_TASKS)
            return list(islice(found, MOST_TASKS))

    typed = {id.removeprefix("#") for id in given}
    for task in _in_time(ask) or ():
        is_fit = verb != "ls" or task.array is not None  # only arrays have a list of their own
        is_mine = not task.reduced or verb in FOR_ALL
        if is_fit and is_mine and task.id not in typed:
            yield Candidate(task.id, f"{state(task)}  {title(task)}")


def _predecessors(last: str) -> Iterator[Candidate]:
    """`12`, `12:ok`, `12:notok`: first the task, then on what condition."""
    id, colon, _ = last.partition(":")
    if colon:
        yield from (Candidate(f"{id}:{when}") for when in ("ok", "notok"))
        return
    for task in _tasks("wait", ()):
        yield task._replace(kind=OPEN)


def _nodes(ctx: click.Context) -> Iterator[Candidate]:
    from stoker.client import Client
    from stoker.wire import NodeView

    from .screen import clean

    def ask() -> list[NodeView]:
        with Client(timeout_s=PATIENCE_S) as client:
            return client.nodes()

    for node in _in_time(ask) or ():
        is_drained = node.drained is not None
        if ctx.info_name not in ("drain", "resume") or is_drained == (ctx.info_name == "resume"):
            yield Candidate(clean(node.name), f"{len(node.cards)} GPU")


def _people(ctx: click.Context) -> Iterator[Candidate]:
    from stoker.client import Client
    from stoker.wire_people import PersonView

    from .screen import clean

    if (ctx.parent and ctx.parent.info_name) != "user" or ctx.info_name == "add":
        return  # only admins may look, and a new name is nobody's yet

    def ask() -> list[PersonView]:
        with Client(timeout_s=PATIENCE_S) as client:
            return client.people()

    for person in _in_time(ask) or ():
        if ctx.info_name not in ("lock", "unlock") or person.locked == (ctx.info_name == "unlock"):
            yield Candidate(person.name, clean(person.full_name))


def _queues(_: click.Context) -> Iterator[Candidate]:
    from stoker.client import Client
    from stoker.wire_queues import QueueView

    from .queue_terms import limit_text
    from .screen import clean

    def ask() -> list[QueueView]:
        with Client(timeout_s=PATIENCE_S) as client:
            return client.queues()

    for queue in _in_time(ask) or ():
        yield Candidate(clean(queue.name), clean(queue.terms.about) or limit_text(queue.terms))


def _teams(_: click.Context) -> Iterator[Candidate]:
    from stoker.client import Client
    from stoker.wire_queues import TeamView

    from .screen import clean

    def ask() -> list[TeamView]:
        with Client(timeout_s=PATIENCE_S) as client:
            return client.teams()

    for team in _in_time(ask) or ():
        yield Candidate(clean(team.name), clean(team.about))


def _fields(_: click.Context) -> Iterator[Candidate]:
    from stoker.domain.task import NOT_YET, fields

    from .options import flag_of

    for field in fields():
        if field.name != "command" and field.name not in NOT_YET:
            yield Candidate(flag_of(field.name)[2:])


def _commands(ctx: click.Context) -> Iterator[Candidate]:
    from .say import words

    root = ctx.find_root()
    assert isinstance(root.command, click.Group)
    for name in root.command.list_commands(root):
        yield Candidate(name, words(f"help.{name}"))


def _in_time(ask: Callable[[], T]) -> T | None:
    """The answer, or None when there is none in time."""
    answers: list[T] = []

    def run() -> None:
        with contextlib.suppress(Exception):  # no server, another version: nothing to offer
            answers.append(ask())

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    return answers[0] if answers else None


SOURCES: dict[str, Callable[[click.Context], Iterator[Candidate]]] = {
    "node": _nodes,
    "name": _people,
    "people": _people,
    "queue": _queues,
    "move_to": _queues,
    "team": _teams,
    "states": lambda _: map(Candidate, STATES),
    "shell": lambda _: map(Candidate, SHELLS),
    "names": _commands,
    "unset": _fields,
}
"""By the parameter's name."""
