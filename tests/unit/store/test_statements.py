"""The prepared text: parameters in the order in which rows are built, and SQL for PostgreSQL too."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects.postgresql.base import PGDialect
from sqlalchemy.dialects.sqlite.base import SQLiteDialect

from stoker.domain.lifecycle import LIVE, WAITING, State
from stoker.store.paging import Paging, Query
from stoker.store.statements import (
    EDITING,
    EVENT,
    MOVING,
    UNFOLDED_EVENT,
    WAITING_TASK,
    Reads,
    Statement,
    Writes,
)
from stoker.store.tables import allocations, attempts, events, meta, tasks

DIALECTS: dict[str, sa.Dialect] = {
    "sqlite": SQLiteDialect(paramstyle="qmark"),
    "postgresql": PGDialect(paramstyle="format"),  # type: ignore[no-untyped-call]
}


@pytest.fixture(params=DIALECTS)
def dialect(request: pytest.FixtureRequest) -> sa.Dialect:
    return DIALECTS[request.param]


def test_rows_fit_their_inserts(dialect: sa.Dialect) -> None:
    sql = Writes(dialect)

    for statement, table in (
        (sql.new_task, tasks),
        (sql.new_attempt, attempts),
        (sql.new_allocation, allocations),
        (sql.new_meta, meta),
    ):
        assert statement.parameters == tuple(table.columns.keys())
    assert sql.new_waiting_task.parameters == WAITING_TASK
    assert sql.new_event.parameters == EVENT
    assert sql.new_unfolded_event.parameters == UNFOLDED_EVENT
    assert {*EVENT, *UNFOLDED_EVENT} == set(events.columns.keys())


def test_parameters_of_updates_are_in_the_order_the_recorder_gives_them(
    dialect: sa.Dialect,
) -> None:
    sql = Writes(dialect)

    guard = ("is_whole_", "id_", "element_", "before")
    assert sql.move_task.parameters == (*(f"new_{name}" for name in MOVING), *guard)
    assert sql.edit_task.parameters == (*(f"new_{name}" for name in EDITING), *guard)
    assert sql.start_attempt.parameters == ("at", "id_")
    assert sql.end_attempt.parameters == ("at", "how", "id_")
    assert sql.renumber.parameters == ("boot", "spool", "after", "id_", "before")
    assert sql.set_meta.parameters == ("new", "key_")


def test_every_statement_is_positional(dialect: sa.Dialect) -> None:
    mark = "?" if dialect.name == "sqlite" else "%s"
    for kind in (Reads, Writes):
        for name, statement in vars(kind(dialect)).items():
            assert isinstance(statement, Statement)
            assert statement.sql.count(mark) == len(statement.parameters), name


def test_every_list_can_be_asked_of_every_database(dialect: sa.Dialect) -> None:
    paging = Paging(dialect)
    ways: Any = itertools.product(
        (frozenset(), WAITING, LIVE, frozenset({State.FINISHED}), frozenset(State)),
        ("", "ana"),
        ("", "x"),
        ("", "lost"),
        ("id", "submitted", "finished", "position"),
        (True, False),
        (True, False),
        ((False, None), (True, None), (False, 17)),
    )
    for states, owner, name, outcome, sort, descending, few, (elements, array) in ways:
        query = Query(
            states=states, owner=owner, name=name, outcome=outcome, sort=sort,
            descending=descending, elements=elements, array=array,
        )  # fmt: skip
        sql, parameters = paging.statement(query, few=few)
        assert sql.count("?" if dialect.name == "sqlite" else "%s") == len(parameters)
        assert ("instr(" in sql) == (bool(name) and dialect.name == "sqlite")


def test_a_submitted_task_binds_only_what_it_has() -> None:
    """Each further value of every insert would be paid for by every task of a batch."""
    sql = Writes(DIALECTS["sqlite"])

    assert len(sql.new_waiting_task.parameters) == 10
    assert len(sql.new_event.parameters) == 8
