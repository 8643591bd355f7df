"""What the lab has decided, on every database: versions, secrets, and the chain of acts."""

from __future__ import annotations

import asyncio

import pytest
import sqlalchemy as sa

from stoker.domain.errors import StaleWrite
from stoker.domain.trail import Trail
from stoker.store.base import Act, Amendment
from stoker.store.database import as_url
from stoker.store.recorder import SqlStore
from tests.helpers.builders import NOON

from .conftest import Open


def put(name: str, body: str = "{}", *, before: int = 0, secret: str | None = None) -> Amendment:
    return Amendment(kind="person", name=name, before=before, body=body, secret=secret)


def act(word: str, who: str = "ana") -> Act:
    return Act(at=NOON, who=who, act=word, on="person bo", values={"weight": 2})


async def test_an_entry_appears_changes_and_goes(store_open: Open) -> None:
    store = store_open()
    await store.amend([put("bo", '{"a":1}', secret="hash")], [act("person.add")])
    await store.amend([put("bo", '{"a":2}', before=1)], [])

    store = store_open()
    assert [(e.name, e.version, e.body) for e in await store.entries()] == [("bo", 2, '{"a":2}')]
    assert await store.secret("person", "bo") == "hash"

    await store.amend([put("bo", before=2, secret="")], [])
    assert await store.secret("person", "bo") is None
    await store.amend([Amendment(kind="person", name="bo", before=3, body=None)], [])
    assert await store.entries() == []


@pytest.mark.parametrize("before", [0, 2])
async def test_of_an_older_version_nothing_is_changed_and_no_act_is_noted(
    store: SqlStore, before: int
) -> None:
    await store.amend([put("bo")], [])

    with pytest.raises(StaleWrite):
        await store.amend([put("cy"), put("bo", before=before)], [act("person.edit")])

    assert [e.name for e in await store.entries()] == ["bo"]
    assert await store.audited(None, 10) == []


async def test_of_what_is_gone_nothing_is_removed(store: SqlStore) -> None:
    with pytest.raises(StaleWrite):
        await store.amend([Amendment(kind="person", name="bo", before=1, body=None)], [])


async def test_acts_come_newest_first_and_by_page(store: SqlStore) -> None:
    for word in ("a", "b", "c"):
        await store.amend([], [act(word)])

    newest = await store.audited(None, 2)
    assert [one.act for one in newest] == [act("c"), act("b")]
    assert [one.act.act for one in await store.audited(newest[-1].seq, 2)] == ["a"]


async def test_acts_of_a_person_and_of_a_family(store: SqlStore) -> None:
    words = ("node.drain", "settings.set", "settings.unset", "setting", "login")
    await store.amend([], [act(word, who) for who in ("ana", "bo") for word in words])

    async def found(before: int | None = None, limit: int = 10, **wanted: str) -> list[str]:
        acts = await store.audited(before, limit, **wanted)
        return [f"{one.seq} {one.act.who} {one.act.act}" for one in acts]

    assert await found(who="bo", act="settings") == ["8 bo settings.unset", "7 bo settings.set"]
    assert await found(act="node.drain") == ["6 bo node.drain", "1 ana node.drain"]
    assert await found(limit=1, who="ana") == ["5 ana login"]
    assert await found(before=5, limit=1, who="ana") == ["4 ana setting"]
    assert await found(who="an") == []


async def test_a_head_that_was_noted_is_found_again(store: SqlStore) -> None:
    await store.amend([], [act("a"), act("b")])
    noted = (await store.verify_audit()).head
    await store.amend([], [act("c")])

    assert (await store.verify_audit(noted)).noted == 2
    assert (await store.verify_audit("0" * 64)).noted is None


async def test_the_trail_can_be_verified_elsewhere(store: SqlStore) -> None:
    await store.amend([], [act(str(n)) for n in range(5)])
    rows = [*await store.trail(0, 3), *await store.trail(3, 3)]

    trail = Trail()
    assert all(trail.follows(row.seq, row.body, row.hash) for row in rows)
    assert (trail.count, trail.head) == (5, (await store.verify_audit()).head)
    assert not Trail().follows(rows[0].seq, rows[0].body + " ", rows[0].hash)


async def test_acts_at_the_same_moment_are_one_chain(store: SqlStore) -> None:
    await asyncio.gather(*(store.amend([], [act(str(n)), act("x")]) for n in range(20)))

    chain = await store.verify_audit()
    assert (chain.count, chain.broken) == (40, None)
    assert (await store.audited(None, 1))[0].hash == chain.head


@pytest.mark.parametrize(
    "harm",
    [
        "UPDATE audit SET body = replace(body, 'ana', 'bob') WHERE seq = 2",
        "DELETE FROM audit WHERE seq = 2",
        "UPDATE audit SET hash = 'x' WHERE seq = 2",
    ],
)
async def test_a_trail_that_was_touched_is_found(store_open: Open, harm: str) -> None:
    store = store_open()
    for word in ("a", "b", "c"):
        await store.amend([], [act(word)])
    engine = sa.create_engine(as_url(store_open.where))
    with engine.begin() as connection:
        connection.execute(sa.text(harm))
    engine.dispose()

    chain = await store.verify_audit()

    assert chain.broken in (2, 3)
    assert store.check() == [f"The audit trail is broken at act {chain.broken}."]
    engine = sa.create_engine(as_url(store_open.where))
    with engine.begin() as connection:
        connection.execute(sa.text("DELETE FROM audit"))
    engine.dispose()
