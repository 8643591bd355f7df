"""Changes of queues, teams, quotas and node labels: checked, recorded and audited together.

A change names the version it was made from. Who is named must be there: a queue for a person with a
typing error in the name would be a queue for nobody. Nodes come and go, so a queue may name one that
was never seen; whoever shows it says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from msgspec import structs

from stoker.domain.check_queue import check_about, check_name, check_queue
from stoker.domain.errors import (
    Conflict,
    InvalidSpec,
    StaleVersion,
    StaleWrite,
    UnknownEntry,
    UnknownPerson,
)
from stoker.domain.person import Person
from stoker.domain.queue import MOST_NAMES, Queue, QueueTerms, Team, TeamTerms
from stoker.domain.rules import NodeNote
from stoker.scheduler.needs import DEFAULT_QUEUE
from stoker.store.base import Act

from .book import Book, Put, Remove


class By(NamedTuple):
    """Who does it, when and from where."""

    who: str
    at: datetime
    origin: str = ""

    def act(self, word: str, on: str, **values: Any) -> Act:
        return Act(at=self.at, who=self.who, act=word, on=on, origin=self.origin, values=values)


# ---- queues


def queue_version(book: Book, name: str) -> int:
    """0 = there is no such queue; one that was never changed here has 1."""
    return book.version("queue", name) + 1 if name in book.queues else 0


async def put_queue(book: Book, name: str, terms: QueueTerms, version: int, by: By) -> None:
    """The queue allows this from now on; version 0 makes a new one."""
    check_queue(name, terms)
    async with book.deciding:
        before = book.queues.get(name)
        if version == 0 and before is not None:
            raise Conflict("queue_exists", queue=name)
        if version and before is None:
            raise UnknownEntry("no_such_queue", queue=name)
        if version != queue_version(book, name):
            raise StaleVersion("stale_entry", name=name)
        _check_named(book, terms)
        nodes = None if terms.nodes is None else frozenset(terms.nodes)
        queue = Queue(name=name, **structs.asdict(terms) | {"nodes": nodes})
        word = "queue.add" if before is None else "queue.edit"
        await _amend(
            book, name, [Put("queue", name, queue)], by.act(word, name, **_changed(before, queue))
        )


def check_removable(book: Book, name: str) -> None:
    """Whether this queue may go at all."""
    if name not in book.queues:
        raise UnknownEntry("no_such_queue", queue=name[:100])
    if name == DEFAULT_QUEUE:
        raise Conflict("default_queue", queue=name)
    if name in book.configured:
        raise Conflict("queue_in_config", queue=name)


async def drop_queue(book: Book, name: str, by: By, **values: Any) -> None:
    """It is there no longer. What still waits in it waits on usual terms."""
    async with book.deciding:
        check_removable(book, name)
        await _amend(book, name, [Remove("queue", name)], by.act("queue.rm", name, **values))


def without_person(book: Book, name: str) -> list[Put]:
    """The queues that named this person, without the name: nobody who is called so later inherits
    it. A queue that was for nobody else is closed, as without a name it would be open to all. What
    config.toml says stays: that is changed there."""
    left = []
    for queue in book.queues.values():
        if name in queue.people and book.version("queue", queue.name):
            others = tuple(person for person in queue.people if person != name)
            after = structs.replace(queue, people=others)
            if not others and not queue.teams:
                after = structs.replace(after, most_waiting=0)
            left.append(Put("queue", queue.name, after))
    return left


def _check_named(book: Book, terms: QueueTerms) -> None:
    for person in terms.people:
        if person not in book.people:
            raise InvalidSpec("unknown_person", field="people", name=person)
    for team in terms.teams:
        if team not in book.teams:
            raise InvalidSpec("no_such_team", field="teams", team=team)


def _changed(before: Queue | None, after: Queue) -> dict[str, Any]:
    """What of a queue is another than before, for the audit trail."""
    old = structs.asdict(before or Queue(name=after.name))
    return {
        name: sorted(value) if isinstance(value, frozenset) else value
        for name, value in structs.asdict(after).items()
        if value != old[name]
    }


# ---- teams


async def put_team(book: Book, name: str, terms: TeamTerms, version: int, by: By) -> None:
    """The team is like this from now on; version 0 makes a new one."""
    check_name(name)
    check_about(terms.about)
    async with book.deciding:
        before = book.teams.get(name)
        if version == 0 and before is not None:
            raise Conflict("team_exists", team=name)
        if version and before is None:
            raise UnknownEntry("no_such_team", team=name)
        if version != book.version("team", name):
            raise StaleVersion("stale_entry", name=name)
        team = Team(name=name, **structs.asdict(terms))
        acts = [by.act("team.add" if before is None else "team.edit", name, about=terms.about)]
        if terms.most_cards != (None if before is None else before.most_cards):
            acts.append(by.act("quota.set", f"team {name}", most_cards=terms.most_cards))
        await _amend(book, name, [Put("team", name, team)], *acts)


async def change_members(
    book: Book, name: str, add: Sequence[str], remove: Sequence[str], by: By
) -> None:
    """These people join the team, leaving the one they were in; those leave it."""
    async with book.deciding:
        if name not in book.teams:
            raise UnknownEntry("no_such_team", team=name[:100])
        joining = [_person(book, who, "add") for who in dict.fromkeys(add)]
        leaving = [_person(book, who, "remove") for who in dict.fromkeys(remove)]
        for person in leaving:
            if person.team != name:
                raise InvalidSpec("not_in_team", field="remove", name=person.name, team=name)
        joining = [person for person in joining if person.team != name]
        puts = [_in_team(p, name) for p in joining]
        puts += [_in_team(p, "") for p in leaving if p.name not in add]
        if puts:
            act = by.act("team.members", name, joined=list(add), left=list(remove))
            await _amend(book, name, puts, act)


async def drop_team(book: Book, name: str, by: By) -> tuple[str, ...]:
    """The team is there no longer; who was in it, and is in none now."""
    async with book.deciding:
        if name not in book.teams:
            raise UnknownEntry("no_such_team", team=name[:100])
        queues = [queue.name for queue in book.queues.values() if name in queue.teams]
        if queues:  # without a name in it, a queue is everybody's
            raise Conflict("team_in_queues", team=name, queues=", ".join(sorted(queues)))
        members = members_of(book, name)
        puts = [_in_team(person, "") for person in members]
        gone = tuple(person.name for person in members)
        act = by.act("team.rm", name, members=list(gone))
        await _amend(book, name, [Remove("team", name), *puts], act)
        return gone


def members_of(book: Book, team: str) -> list[Person]:
    found = [person for person in book.people.values() if person.team == team]
    return sorted(found, key=lambda person: person.name)


def _in_team(person: Person, team: str) -> Put:
    return Put("person", person.name, structs.replace(person, team=team))


def _person(book: Book, name: str, field: str) -> Person:
    person = book.people.get(name)
    if person is None:
        raise InvalidSpec("unknown_person", field=field, name=name)
    return person


# ---- quotas and labels


async def set_quota(book: Book, name: str, most_cards: int | None, by: By) -> None:
    """So many cards may this person hold at the same time; None = any number."""
    async with book.deciding:
        person = book.people.get(name)
        if person is None:
            raise UnknownPerson(name=name[:100])
        changed = structs.replace(person, most_cards=most_cards)
        act = by.act("quota.set", f"person {name}", most_cards=most_cards)
        await _amend(book, name, [Put("person", name, changed)], act)


async def set_labels(book: Book, node: str, labels: Iterable[str], by: By) -> None:
    """The node has exactly these labels."""
    wanted = tuple(sorted(set(labels)))
    for label in wanted:
        check_name(label, "labels")
    if len(wanted) > MOST_NAMES:
        raise InvalidSpec("too_many_names", field="labels", count=len(wanted), most=MOST_NAMES)
    async with book.deciding:
        if wanted == labels_of(book, node):
            return
        change = Put("node", node, NodeNote(name=node, labels=wanted))
        await _amend(book, node, [change], by.act("node.label", node, labels=list(wanted)))


def labels_of(book: Book, node: str) -> tuple[str, ...]:
    note = book.nodes.get(node)
    return () if note is None else note.labels


async def _amend(book: Book, name: str, changes: Sequence[Put | Remove], *acts: Act) -> None:
    try:
        await book.amend(changes, acts)
    except StaleWrite:
        raise StaleVersion("stale_entry", name=name) from None
