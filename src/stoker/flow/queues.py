"""Queues, teams and quotas as they stand, and the removal of a queue that tasks wait in.

Whoever waits in a queue that goes away is moved first, by an edit like any other, in one piece with
all the others: one task that may not wait in the other queue, and nothing is changed.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import structs

from stoker.domain.errors import Conflict, InvalidSpec, RequestError, StaleWrite
from stoker.domain.event import Edited
from stoker.domain.key import TaskKey
from stoker.domain.lifecycle import WAITING, Task
from stoker.domain.queue import Queue, QueueTerms
from stoker.lab.queues import By, check_removable, drop_queue, members_of, queue_version
from stoker.scheduler.needs import DEFAULT_QUEUE
from stoker.store.base import Change
from stoker.wire_queues import QueueView, QuotaView, TeamView

from .accept import admit
from .commit import commit, moved
from .context import Flow
from .follow import follow
from .places import waiting_in

MOST_AT_ONCE = 1000
"""Tasks that are moved in one transaction."""


# ---- questions


def queues(flow: Flow, person: str, *, all: bool) -> list[QueueView]:
    """Those that this person may use; `all`: every one, with whom it is for."""
    running: dict[str, int] = {}
    for holding in flow.view.taken().values():
        running[holding.queue] = running.get(holding.queue, 0) + 1
    found = [
        _queue_view(flow, queue, person, running.get(queue.name, 0), all=all)
        for queue in flow.book.queues.values()
        if all or flow.policy.may_use(person, flow.policy.queue(queue.name))
    ]
    return sorted(found, key=lambda view: (-view.terms.priority, view.name))


def teams(flow: Flow, only: str | None = None) -> list[TeamView]:
    """By name; `only` this one, if there is one."""
    names = sorted(flow.book.teams) if only is None else [only]
    return [team(flow, name) for name in names if name in flow.book.teams]


def team(flow: Flow, name: str) -> TeamView:
    known = flow.book.teams[name]
    return TeamView(
        name=name,
        version=flow.book.version("team", name),
        about=known.about,
        most_cards=known.most_cards,
        members=tuple(person.name for person in members_of(flow.book, name)),
        cards=flow.view.cards_of_team(name),
    )


def quotas(flow: Flow, only: str | None = None) -> list[QuotaView]:
    """Of everybody, by name; or `only` of this person."""
    names = sorted(flow.book.people) if only is None else [only]
    return [quota(flow, name) for name in names if name in flow.book.people]


def quota(flow: Flow, name: str) -> QuotaView:
    person = flow.book.people[name]
    cards = flow.view.cards_of(name)
    return QuotaView(person=name, team=person.team, most_cards=person.most_cards, cards=cards)


def is_known_node(flow: Flow, name: str) -> bool:
    """Whether a node of this name was ever seen."""
    return name in flow.view.rooms or name in flow.spools or name in flow.book.nodes


def _queue_view(flow: Flow, queue: Queue, person: str, running: int, *, all: bool) -> QueueView:
    name, book = queue.name, flow.book
    labels = {label for note in book.nodes.values() for label in note.labels}
    restricted = bool(queue.people or queue.teams)
    terms = structs.asdict(queue if all else structs.replace(queue, people=(), teams=()))
    terms.pop("name")
    return QueueView(
        name=name,
        version=queue_version(book, name),
        terms=QueueTerms(**terms),
        restricted=restricted,
        configured=name in book.configured and not book.version("queue", name),
        waiting=waiting_in(flow, name),
        yours=flow.in_line.get(person, {}).get(name, 0),
        running=running,
        cards=flow.view.cards_of(queue=name),
        missing_nodes=tuple(n for n in sorted(queue.nodes or ()) if not is_known_node(flow, n)),
        missing_labels=tuple(label for label in queue.labels if label not in labels),
    )


# ---- removal


async def remove_queue(flow: Flow, name: str, move_to: str, by: By) -> int:
    """The queue goes away; how many waiting tasks went to `move_to`.

    Refused while tasks wait in it, unless `move_to` says where they go.
    """
    check_removable(flow.book, name)
    if not move_to and (count := waiting_in(flow, name)):
        raise Conflict("queue_has_waiting", queue=name, count=count)
    if move_to == name:
        raise InvalidSpec("same_queue", field="move_to", queue=name)
    if move_to and move_to not in flow.book.queues:
        raise InvalidSpec("no_such_queue", field="move_to", queue=move_to[:100])
    count = await _move_all(flow, name, move_to, by.who) if move_to else 0
    values = {"move_to": move_to, "moved": count} if move_to else {}
    await drop_queue(flow.book, name, by, **values)
    if move_to:  # who was accepted just before it went
        count += await _move_all(flow, name, move_to, by.who)
    return count


async def _move_all(flow: Flow, name: str, target: str, by: str) -> int:
    done = 0
    async with flow.editing:
        while rows := await _waiting_in(flow, name):
            changes = [_moved(flow, row, target, by) for row in rows]
            for pairs in _pieces(list(zip(rows, changes, strict=True))):
                try:
                    await commit(flow, [change for _, change in pairs])
                except StaleWrite:
                    break  # one of them has begun or changed meanwhile: look again
                for before, change in pairs:
                    follow(flow, change.task, before)
                done += len(pairs)
        flow.replan()
    return done


async def _waiting_in(flow: Flow, name: str) -> list[Task]:
    keys: list[TaskKey] = [
        row.key
        for row in await flow.store.waiting()
        if (row.spec.queue or DEFAULT_QUEUE) == name
    ]  # fmt: skip
    return [task for task in await flow.store.tasks(keys) if task.state in WAITING]


def _moved(flow: Flow, task: Task, target: str, by: str) -> Change:
    try:
        spec, _ = admit(flow, task.owner, structs.replace(task.spec, queue=target), by=by)
    except RequestError as error:
        raise Conflict("cannot_move", task=str(task.key), queue=target, cause=error.code) from None
    return moved(task, Edited(at=flow.clock.now(), by=by, spec=spec))


def _pieces(pairs: list[tuple[Task, Change]]) -> Iterator[list[tuple[Task, Change]]]:
    for first in range(0, len(pairs), MOST_AT_ONCE):
        yield pairs[first : first + MOST_AT_ONCE]
