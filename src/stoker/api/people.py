"""People, as admins see and change them. Writes through access, cancels tasks through flow.

Removing somebody who has tasks takes three steps, each recorded: locked, so that nothing new comes;
everything cancelled; removed. A crash in between leaves a locked person whose removal can be
repeated.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, structs

from stoker.access import people as lab
from stoker.access.codes import GOOD_FOR, new_code
from stoker.domain.errors import Conflict, UnknownTask
from stoker.domain.key import parse_key
from stoker.domain.lifecycle import LIVE, WAITING, State
from stoker.domain.person import Person
from stoker.flow import stop
from stoker.store.paging import Query as Wanted
from stoker.wire_people import (
    AddedPerson,
    NewCode,
    NewPeople,
    NewPerson,
    PersonSettings,
    PersonView,
    RemovedPerson,
)

from .login import the_login
from .query import NoQuery, Query
from .route import Call, route

PAGE = 500
AT_ONCE = 50


class SharingQuery(Query, frozen=True, kw_only=True):
    share_account: Annotated[
        bool, Meta(description="Even if the unix account is another person's already")
    ] = False


class RemovalQuery(Query, frozen=True, kw_only=True):
    tasks: Annotated[
        Literal["refuse", "cancel"],
        Meta(description="What becomes of waiting and running tasks: nobody is removed who has "
             "some, or they are cancelled"),
    ] = "refuse"  # fmt: skip


@route("GET", "/people", access="admin", scope="admin", answer=list[PersonView])
async def people(call: Call[NoQuery, None]) -> list[PersonView]:
    """Everybody, by name."""
    known = call.parts.flow.book.people
    return [_shown(call, known[name]) for name in sorted(known)]


@route(
    "POST",
    "/people",
    access="admin",
    scope="admin",
    query=SharingQuery,
    body=NewPerson,
    status=201,
    answer=AddedPerson,
    refusals=(409,),
)
async def add_person(call: Call[SharingQuery, NewPerson]) -> AddedPerson:
    """Somebody new. The one-time password is in this answer and nowhere else."""
    return (await _add(call, (call.body,), batch=False))[0]


@route(
    "POST",
    "/people/batch",
    access="admin",
    scope="admin",
    query=SharingQuery,
    body=NewPeople,
    status=201,
    answer=list[AddedPerson],
    refusals=(409,),
)
async def add_people(call: Call[SharingQuery, NewPeople]) -> list[AddedPerson]:
    """Many at once: all are added, or none."""
    return await _add(call, call.body.people, batch=True)


@route("GET", "/people/{person}", access="admin", scope="admin", answer=PersonView)
async def show_person(call: Call[NoQuery, None]) -> PersonView:
    """All about one person but secrets."""
    return _shown(call, lab.find(call.parts.flow.book, call.named("person")))


@route(
    "PUT",
    "/people/{person}",
    access="admin",
    scope="admin",
    query=SharingQuery,
    body=PersonSettings,
    answer=PersonView,
    refusals=(409,),
    versioned=True,
)
async def change_person(call: Call[SharingQuery, PersonSettings]) -> PersonView:
    """These settings from now on, all of them. What the person alone decides stays."""
    flow, settings = call.parts.flow, structs.asdict(call.body)
    after = await lab.change(
        flow.book, flow.clock, call.named("person"), settings, call.who,
        version=call.version, may_share=call.query.share_account,
    )  # fmt: skip
    return _shown(call, after)


@route(
    "POST",
    "/people/{person}/lock",
    access="admin",
    scope="admin",
    answer=PersonView,
    refusals=(409,),
)
async def lock_person(call: Call[NoQuery, None]) -> PersonView:
    """Nobody comes in by this name; every token and session of it ends. Tasks go on."""
    flow = call.parts.flow
    return _shown(call, await lab.lock(flow.book, flow.clock, call.named("person"), call.who))


@route(
    "POST",
    "/people/{person}/unlock",
    access="admin",
    scope="admin",
    answer=PersonView,
    refusals=(409,),
)
async def unlock_person(call: Call[NoQuery, None]) -> PersonView:
    """The password is good again; tokens have to be made anew."""
    flow = call.parts.flow
    return _shown(call, await lab.unlock(flow.book, flow.clock, call.named("person"), call.who))


@route(
    "POST",
    "/people/{person}/password",
    access="admin",
    scope="admin",
    answer=AddedPerson,
    refusals=(409,),
)
async def reset_password(call: Call[NoQuery, None]) -> AddedPerson:
    """A one-time password instead of the one that was forgotten; every token and session ends."""
    flow, hashed = call.parts.flow, _hash(call)
    person, password = await lab.reset_password(
        flow.book, flow.clock, hashed, call.named("person"), call.who
    )
    return AddedPerson(person=_shown(call, person), one_time_password=password)


@route(
    "POST",
    "/people/{person}/code",
    access="admin",
    scope="admin",
    answer=NewCode,
    refusals=(409,),
)
async def make_code(call: Call[NoQuery, None]) -> NewCode:
    """A code with which the person can log in once, within a day."""
    flow = call.parts.flow
    shown = _shown(call, lab.find(flow.book, call.named("person")))
    if shown.state != "active":
        raise Conflict("person_shut_out", name=shown.name)
    expires_at = flow.clock.now() + GOOD_FOR
    code = await new_code(
        flow.book, flow.clock, shown.name, by=call.who.name, origin=call.who.origin
    )
    return NewCode(person=shown.name, code=code, expires_at=expires_at)


@route(
    "DELETE",
    "/people/{person}",
    access="admin",
    scope="admin",
    query=RemovalQuery,
    answer=RemovedPerson,
    refusals=(409,),
)
async def remove_person(call: Call[RemovalQuery, None]) -> RemovedPerson:
    """Gone for good. What has finished stays in the records under the name."""
    flow, name = call.parts.flow, call.named("person")
    lab.check_removable(flow.book, flow.clock, name)
    cancelled = 0
    if call.query.tasks == "cancel":
        await lab.lock(flow.book, flow.clock, name, call.who)
        cancelled = await _cancel_all(call, name)
    else:
        await _check_no_tasks(call, name)
    await lab.remove(flow.book, flow.clock, name, call.who)
    return RemovedPerson(removed=name, cancelled=cancelled)


ROUTES = (
    people, add_person, add_people, show_person, change_person, lock_person, unlock_person,
    reset_password, make_code, remove_person,
)  # fmt: skip


def _hash(call: Call[Any, Any]) -> lab.Hash:
    """How passwords are hashed here. Conflict where nobody could come in with one."""
    the_login(call)
    return call.parts.passwords.hashed


def _shown(call: Call[Any, Any], person: Person) -> PersonView:
    flow = call.parts.flow
    return lab.view(flow.book, flow.clock, person)


async def _add(
    call: Call[SharingQuery, Any], bodies: tuple[NewPerson, ...], *, batch: bool
) -> list[AddedPerson]:
    flow, hashed = call.parts.flow, _hash(call)
    newcomers = []
    for body in bodies:
        known = structs.asdict(body)
        password = known.pop("password")
        newcomers.append(lab.Newcomer(Person(**known), password))
    made = await lab.add(
        flow.book, flow.clock, hashed, newcomers, call.who,
        may_share=call.query.share_account, batch=batch,
    )  # fmt: skip
    return [
        AddedPerson(person=_shown(call, flow.book.people[body.name]), one_time_password=password)
        for body, password in zip(bodies, made, strict=True)
    ]


class _Listed(msgspec.Struct):
    id: str
    state: State


async def _unfinished(call: Call[Any, Any], owner: str) -> list[_Listed]:
    found: list[_Listed] = []
    wanted = Wanted(states=WAITING | LIVE, owner=owner, limit=PAGE)
    while True:
        rows, following = await asyncio.to_thread(call.parts.readers.page, wanted)
        found += [msgspec.json.decode(row[0], type=_Listed) for row in rows]
        if following is None:
            return found
        wanted = structs.replace(wanted, cursor=following)


async def _check_no_tasks(call: Call[Any, Any], owner: str) -> None:
    found = await _unfinished(call, owner)
    if found:
        waiting = sum(task.state in WAITING for task in found)
        running = len(found) - waiting
        raise Conflict("has_tasks", field="tasks", name=owner, waiting=waiting, running=running)


async def _cancel_all(call: Call[Any, Any], owner: str) -> int:
    """Every wish is recorded when this returns; what runs ends in its grace time."""
    tasks = await _unfinished(call, owner)
    for some in _in_parts(tasks):
        await asyncio.gather(*(_cancel(call, task.id) for task in some))
    return len(tasks)


async def _cancel(call: Call[Any, Any], id: str) -> None:
    key = parse_key(id)
    assert key is not None
    try:
        await stop.cancel(call.parts.flow, key, call.who.name)
    except (Conflict, UnknownTask):
        return  # it has ended or was deleted meanwhile


def _in_parts(tasks: list[_Listed]) -> Iterator[list[_Listed]]:
    for begin in range(0, len(tasks), AT_ONCE):
        yield tasks[begin : begin + AT_ONCE]
