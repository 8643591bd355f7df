"""One transaction for several calls: what is said to an array and to its elements keeps its order."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import sqlalchemy as sa

from stoker.domain.errors import StaleWrite
from stoker.domain.event import Edited, Held, Released
from stoker.domain.key import TaskKey
from stoker.store.base import Change
from stoker.store.recorder import SqlStore, open_store
from stoker.store.recording import write_changes
from stoker.store.statements import Cursor
from tests.helpers.builders import a_spec, at, element, ended, move, new, placed

from .conftest import Records, Where
from .inline import InlineWriter

Write = Callable[..., list[int]]

ARRAY = new(17, a_spec(array="0-9"))
HELD = move(ARRAY.task, Held(at=at(1), by="ana"))
RELEASED = move(HELD.task, Released(at=at(2), by="ana"))
EDITED = move(ARRAY.task, Edited(at=at(1), by="ana", spec=a_spec(name="new", array="0-9")))


@pytest.fixture
def cursor(store: SqlStore, records: Records) -> Cursor:
    """In a transaction that is never committed."""
    records.execute("BEGIN")
    found: Cursor = records.cursor()
    return found


@pytest.fixture
def write(store: SqlStore, cursor: Cursor) -> Write:
    def write(*calls: Sequence[Change]) -> list[int]:
        last = cursor.execute("SELECT max(seq) FROM events").fetchone()[0] or 0
        return write_changes(cursor, store._writes, calls, last)

    return write


def test_an_element_before_a_word_to_its_array_begins(cursor: Cursor, write: Write) -> None:
    write([ARRAY])

    write([element(ARRAY.task, 0, placed("a1"))], [HELD])

    rows = cursor.execute("SELECT element, state FROM tasks ORDER BY element").fetchall()
    assert rows == [(-1, "HELD"), (0, "STARTING")]


@pytest.mark.parametrize("word", [HELD, EDITED], ids=["held", "edited"])
def test_an_element_after_a_word_to_its_array_is_stale(
    cursor: Cursor, write: Write, word: Change
) -> None:
    write([ARRAY])

    with pytest.raises(StaleWrite):
        write([word], [element(ARRAY.task, 0, placed("a1"))])


def test_an_element_that_knows_the_word_begins_with_what_it_said(
    cursor: Cursor, write: Write
) -> None:
    write([ARRAY])

    write(
        [element(ARRAY.task, 0, placed("a1"))],
        [EDITED],
        [element(EDITED.task, 1, placed("a2", number=2))],
    )

    rows = cursor.execute("SELECT element, spec_seq FROM tasks ORDER BY element").fetchall()
    assert rows == [(-1, 4), (0, 1), (1, 4)]
    of = cursor.execute("SELECT element, spec_of FROM events WHERE kind = 'Unfolded'").fetchall()
    assert of == [(0, 1), (1, 4)]


def test_elements_that_disagree_about_their_array(cursor: Cursor, write: Write) -> None:
    write([ARRAY])
    early, late = element(ARRAY.task, 0, placed("a1")), element(EDITED.task, 1)

    for calls in ([[early], [late]], [[late], [early]]):
        with pytest.raises(StaleWrite):
            write(*calls)


def test_words_and_elements_by_turns(cursor: Cursor, write: Write) -> None:
    """Each call's number is that of its last event."""
    after = write(
        [ARRAY],
        [element(ARRAY.task, 0, placed("a1"))],
        [HELD],
        [element(HELD.task, 1, ended(None, "cancelled", "cancelled"))],
        [RELEASED],
        [element(RELEASED.task, 2, placed("a2", number=2)), new(18)],
    )

    assert after == [1, 3, 4, 6, 7, 10]
    rows = cursor.execute("SELECT id, element, state, version FROM tasks ORDER BY 1, 2").fetchall()
    assert rows == [
        (17, -1, "QUEUED", 3), (17, 0, "STARTING", 2), (17, 1, "FINISHED", 2),
        (17, 2, "STARTING", 2), (18, -1, "QUEUED", 1),
    ]  # fmt: skip


# ---- a writer of one's own


async def test_a_store_without_threads(where: Where, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_thread(*_: object) -> None:
        raise AssertionError("a thread was started")

    monkeypatch.setattr("threading.Thread.start", no_thread)
    made: list[InlineWriter] = []

    def writer(engine: sa.Engine) -> InlineWriter:
        made.append(InlineWriter(engine))
        return made[-1]

    store = open_store(where, writer)
    try:
        await store.record([ARRAY, new(18, None, placed("a1"))])
        await store.remember("x", "y")

        assert [row.key for row in await store.waiting()] == [TaskKey(17)]
        assert len(await store.live()) == len(await store.arrays()) == 1
        assert await store.outcomes([TaskKey(18)]) == {TaskKey(18): None}
        assert await store.attempts_of([TaskKey(18)]) == ["a1"]
        assert await store.recall("x") == "y"
        assert (made[0].done, store.failing) == (["_record", "_remember"], "")
    finally:
        store.close()
