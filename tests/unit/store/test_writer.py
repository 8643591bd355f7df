"""The writer alone, on a driver that does as the test says: grouping, guilt, cancellation, faults."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
import sqlalchemy as sa

from stoker.domain.errors import StaleWrite, StoreDown
from stoker.store.statements import Cursor
from stoker.store.writer import MOST_IN_GROUP, Writer

PATIENCE_S = 20


class Driver:
    """A database of statements: what was executed since BEGIN is kept by COMMIT."""

    def __init__(self) -> None:
        self.dialect = SimpleNamespace(name="scripted", loaded_dbapi=sqlite3)
        self.committed: list[list[str]] = []
        self.opened = 0
        self.closed = 0
        self.faults: dict[str, list[Exception | None]] = {}
        """By the first word of a statement: what it raises, time by time; None = nothing."""

    def raw_connection(self) -> Connection:
        self.fail("CONNECT")
        self.opened += 1
        return Connection(self)

    def fail(self, word: str) -> None:
        fault = self.faults[word].pop(0) if self.faults.get(word) else None
        if fault is not None:
            raise fault


class Connection:
    driver_connection = None

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._open: list[str] | None = None

    def cursor(self) -> Connection:
        return self

    def execute(self, sql: str, _parameters: object = ()) -> None:
        word = sql.partition(" ")[0]
        self._driver.fail(word)
        if word == "BEGIN":
            assert self._open is None
            self._open = []
            return
        assert self._open is not None
        if word == "COMMIT":
            self._driver.committed.append(self._open)
            self._open = None
        elif word == "ROLLBACK":
            self._open = None
        else:
            self._open.append(sql)

    def invalidate(self) -> None:
        self._driver.closed += 1

    def close(self) -> None:
        self._driver.closed += 1


@pytest.fixture
def driver() -> Driver:
    return Driver()


@pytest.fixture
def writer(driver: Driver) -> Iterator[Writer]:
    writer = Writer(cast("sa.Engine", driver))
    yield writer
    writer.close()


def note(cursor: Cursor, words: list[str]) -> Sequence[str]:
    """Work that records its words. The word `stale` is refused."""
    for word in words:
        if word == "stale":
            raise StaleWrite
        if word == "bug":
            raise ZeroDivisionError
        cursor.execute(word)
    return [word.upper() for word in words]


class Gate:
    """Work that holds the writer's thread until it is opened."""

    def __init__(self) -> None:
        self._taken, self._open = threading.Event(), threading.Event()

    def work(self, cursor: Cursor, arguments: list[Any]) -> list[Any]:
        self._taken.set()
        assert self._open.wait(PATIENCE_S)
        return list(note(cursor, arguments))

    def open(self) -> None:
        self._open.set()

    async def taken(self) -> None:
        assert await asyncio.to_thread(self._taken.wait, PATIENCE_S)


async def behind_gate(writer: Writer, words: Sequence[str]) -> list[Any]:
    """The outcomes of calls that all wait when the writer comes to look."""
    gate = Gate()
    first = asyncio.create_task(writer.do(gate.work, "first"))
    await gate.taken()
    calls = [asyncio.create_task(writer.do(note, word)) for word in words]
    await asyncio.sleep(0)
    gate.open()
    await first
    return await asyncio.gather(*calls, return_exceptions=True)


async def test_a_call_returns_its_result_after_the_commit(writer: Writer, driver: Driver) -> None:
    assert await writer.do(note, "a") == "A"
    assert driver.committed == [["a"]]


async def test_calls_that_wait_together_are_one_transaction(writer: Writer, driver: Driver) -> None:
    outcomes = await behind_gate(writer, ["a", "b", "c"])

    assert outcomes == ["A", "B", "C"]
    assert driver.committed == [["first"], ["a", "b", "c"]]


async def test_a_group_has_a_bound(writer: Writer, driver: Driver) -> None:
    words = [f"w{number}" for number in range(MOST_IN_GROUP + 10)]

    outcomes = await behind_gate(writer, words)

    assert outcomes == [word.upper() for word in words]
    assert [len(group) for group in driver.committed] == [1, MOST_IN_GROUP, 10]


@pytest.mark.parametrize(("word", "error"), [("stale", StaleWrite), ("bug", ZeroDivisionError)])
async def test_only_the_guilty_call_of_a_group_fails(
    writer: Writer, driver: Driver, word: str, error: type[Exception]
) -> None:
    outcomes = await behind_gate(writer, ["a", word, "c"])

    assert [outcomes[0], outcomes[2]] == ["A", "C"]
    assert isinstance(outcomes[1], error)
    assert driver.committed == [["first"], ["a"], ["c"]]
    assert writer.failing == ""


# ---- the disk refuses


FULL = sqlite3.OperationalError("database or disk is full")
FULL.sqlite_errorname = "SQLITE_FULL"
BROKEN = sqlite3.OperationalError("disk I/O error")


@pytest.mark.parametrize(
    ("word", "fault", "code"),
    [
        ("COMMIT", FULL, "disk_full"),
        ("COMMIT", BROKEN, "store_down"),
        ("COMMIT", sqlite3.IntegrityError("deferred"), "store_down"),
        ("BEGIN", sqlite3.OperationalError("database is locked"), "store_down"),
        ("a", FULL, "disk_full"),
        ("b", sqlite3.DatabaseError("database disk image is malformed"), "store_down"),
    ],
)
async def test_a_disk_that_refuses_fails_the_whole_group_once(
    writer: Writer, driver: Driver, word: str, fault: Exception, code: str
) -> None:
    await writer.do(note, "before")
    gate = Gate()
    first = asyncio.create_task(writer.do(gate.work, "first"))
    await gate.taken()
    calls = [asyncio.create_task(writer.do(note, word)) for word in ("a", "b")]
    await asyncio.sleep(0)
    driver.faults[word] = [None, fault] if word == "COMMIT" else [fault]
    gate.open()
    await first
    outcomes = await asyncio.gather(*calls, return_exceptions=True)

    for outcome in outcomes:
        assert isinstance(outcome, StoreDown)
        assert (outcome.code, outcome.values["why"]) == (code, str(fault))
    assert outcomes[0] is not outcomes[1]
    assert driver.committed == [["before"], ["first"]]
    assert writer.failing == str(fault)
    assert (driver.opened, driver.closed) == (1, 1)


async def test_the_next_call_opens_a_new_connection_and_all_is_well(
    writer: Writer, driver: Driver
) -> None:
    driver.faults["COMMIT"] = [FULL]
    with pytest.raises(StoreDown):
        await writer.do(note, "a")

    assert await writer.do(note, "b") == "B"

    assert (driver.opened, driver.committed, writer.failing) == (2, [["b"]], "")


async def test_a_database_that_cannot_be_opened_is_down_until_it_can(
    writer: Writer, driver: Driver
) -> None:
    driver.faults["CONNECT"] = [sqlite3.OperationalError("unable to open database file")] * 2
    for _ in range(2):
        with pytest.raises(StoreDown):
            await writer.do(note, "a")

    assert await writer.do(note, "b") == "B"


async def test_a_rollback_that_fails_gives_the_connection_up(
    writer: Writer, driver: Driver
) -> None:
    driver.faults["ROLLBACK"] = [BROKEN]
    with pytest.raises(StoreDown):
        await writer.do(note, "stale")

    assert await writer.do(note, "b") == "B"
    assert driver.opened == 2


# ---- cancellation


async def test_a_call_cancelled_before_it_was_taken_does_nothing(
    writer: Writer, driver: Driver
) -> None:
    gate = Gate()
    first = asyncio.create_task(writer.do(gate.work, "first"))
    await gate.taken()
    call = asyncio.create_task(writer.do(note, "never"))
    await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    gate.open()
    await first

    assert await writer.do(note, "after") == "AFTER"
    assert driver.committed == [["first"], ["after"]]


async def test_a_call_cancelled_once_it_was_taken_is_done_and_returns(
    writer: Writer, driver: Driver
) -> None:
    gate = Gate()
    story: list[str] = []

    async def caller() -> None:
        story.append(await writer.do(gate.work, "a"))
        await asyncio.sleep(PATIENCE_S)
        story.append("never here")

    call = asyncio.create_task(caller())
    await gate.taken()
    for _ in range(3):  # impatient
        call.cancel()
        await asyncio.sleep(0)
    assert not call.done()
    gate.open()
    with pytest.raises(asyncio.CancelledError):
        await call

    assert story == ["A"]
    assert driver.committed == [["a"]]


async def test_a_call_cancelled_once_it_was_taken_still_tells_its_error(writer: Writer) -> None:
    gate = Gate()
    call = asyncio.create_task(writer.do(gate.work, "stale"))
    await gate.taken()
    call.cancel()
    await asyncio.sleep(0)
    gate.open()

    with pytest.raises(StaleWrite):
        await call


async def test_a_timeout_that_strikes_late_still_is_a_timeout(
    writer: Writer, driver: Driver
) -> None:
    gate = Gate()

    async def caller() -> None:
        async with asyncio.timeout(0.02) as limit:
            asyncio.get_running_loop().call_at(limit.when() or 0, gate.open)
            await writer.do(gate.work, "a")
            await asyncio.sleep(PATIENCE_S)

    with pytest.raises(TimeoutError):
        await caller()
    assert driver.committed == [["a"]]


# ---- meanwhile


class Steps:
    """So many steps, each noted; `stop` holds the thread within one of them."""

    def __init__(self, count: int, stop: dict[int, Gate] | None = None) -> None:
        self.taken = 0
        self.is_over = threading.Event()
        self._count, self._stop = count, stop or {}

    def step(self, cursor: Cursor) -> bool:
        self.taken += 1
        number = self.taken
        if number in self._stop:
            self._stop[number].work(cursor, [])
        cursor.execute(f"step {number}")
        if number == self._count:
            self.is_over.set()
        return number < self._count

    def begin(self, writer: Writer) -> Callable[[Cursor, list[Any]], list[Any]]:
        """Work that has them done."""

        def begin(cursor: Cursor, words: list[Any]) -> list[Any]:
            writer.meanwhile(self.step)
            return list(note(cursor, words))

        return begin

    async def over(self) -> None:
        assert await asyncio.to_thread(self.is_over.wait, PATIENCE_S)


async def test_steps_are_taken_until_the_last(writer: Writer, driver: Driver) -> None:
    steps = Steps(3)

    assert await writer.do(steps.begin(writer), "a") == "A"
    await steps.over()
    await writer.do(note, "b")

    assert driver.committed == [["a"], ["step 1"], ["step 2"], ["step 3"], ["b"]]


async def test_a_new_writer_may_have_steps_to_take(driver: Driver) -> None:
    steps = Steps(2)
    writer = Writer(cast("sa.Engine", driver), steps.step)
    try:
        await steps.over()
    finally:
        writer.close()

    assert driver.committed == [["step 1"], ["step 2"]]


async def test_calls_come_between_two_steps(writer: Writer, driver: Driver) -> None:
    gate = Gate()
    steps = Steps(2, stop={1: gate})
    await writer.do(steps.begin(writer), "a")
    await gate.taken()
    calls = [asyncio.create_task(writer.do(note, word)) for word in ("b", "c")]
    await asyncio.sleep(0)
    gate.open()
    await asyncio.gather(*calls)
    await steps.over()
    writer.close()

    assert driver.committed == [["a"], ["step 1"], ["b", "c"], ["step 2"]]


async def test_while_the_disk_refuses_no_step_is_taken(writer: Writer, driver: Driver) -> None:
    gate = Gate()
    steps = Steps(3, stop={1: gate})
    await writer.do(steps.begin(writer), "a")
    await gate.taken()
    driver.faults["COMMIT"] = [FULL, FULL]
    gate.open()

    with pytest.raises(StoreDown):  # the disk refused the step before, and this
        await writer.do(note, "b")
    assert steps.taken == 1
    assert await writer.do(note, "c") == "C"
    await steps.over()
    writer.close()

    assert driver.committed == [["a"], ["c"], ["step 2"], ["step 3"]]
    assert writer.failing == ""


async def test_a_step_that_cannot_be_taken_is_not_tried_for_ever(
    writer: Writer, driver: Driver, caplog: pytest.LogCaptureFixture
) -> None:
    stumbled = threading.Event()

    def stumble(_cursor: Cursor) -> bool:
        stumbled.set()
        raise ZeroDivisionError

    def begin(cursor: Cursor, words: list[str]) -> Sequence[str]:
        writer.meanwhile(stumble)
        return note(cursor, words)

    await writer.do(begin, "a")
    assert await asyncio.to_thread(stumbled.wait, PATIENCE_S)
    writer.close()

    assert [record.message for record in caplog.records] == ["event=step_failed"]
    assert (driver.committed, writer.failing) == ([["a"]], "")


async def test_close_waits_for_one_step_not_for_all(writer: Writer, driver: Driver) -> None:
    gate = Gate()
    steps = Steps(1000, stop={1: gate})
    await writer.do(steps.begin(writer), "a")
    await gate.taken()
    closing = asyncio.create_task(asyncio.to_thread(writer.close))
    while not writer._closed:
        await asyncio.sleep(0)
    gate.open()
    await closing

    assert steps.taken < 1000
    assert driver.committed[:2] == [["a"], ["step 1"]]


# ---- the end


async def test_close_finishes_what_was_asked(writer: Writer, driver: Driver) -> None:
    calls = [asyncio.create_task(writer.do(note, word)) for word in ("a", "b")]
    await asyncio.sleep(0)
    writer.close()

    assert await asyncio.gather(*calls) == ["A", "B"]
    assert driver.closed == 1
    with pytest.raises(StoreDown):
        await writer.do(note, "late")


def test_a_caller_whose_loop_is_gone_harms_nobody(writer: Writer, driver: Driver) -> None:
    gate = Gate()

    async def leave() -> None:
        call = asyncio.create_task(writer.do(gate.work, "left"))
        await gate.taken()
        call.cancel()

    loop = asyncio.new_event_loop()
    loop.run_until_complete(leave())
    for task in asyncio.all_tasks(loop):
        task.get_coro().close()
    loop.close()
    gate.open()

    assert asyncio.run(writer.do(note, "next")) == "NEXT"
    assert driver.committed == [["left"], ["next"]]
