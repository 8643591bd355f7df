"""What deleted arrays leave, taken away a little at a time.

An array may have a million elements: their rows, events and attempts would keep the one writer from
everybody else for a minute. So deleting takes away the array itself and notes its id (the meta row
`sweep`); from that moment nothing that reads sees its elements, and nothing moves them. What is
noted is swept in small transactions, and after a crash by the next server.
"""

from __future__ import annotations

from .statements import Cursor, Writes

SWEEP = "sweep"
ROWS = 500
"""Events that one step takes, with what belongs to them: a call that comes meanwhile waits for it some
milliseconds. Ten times as many would not be done sooner."""
NO_END = 2**62


def to_sweep(value: str) -> list[int]:
    """The ids in the meta row."""
    return [int(id) for id in value.split()]


def leave(cursor: Cursor, sql: Writes, id: int) -> None:
    """Note that the elements of this array are to be swept, if there are any."""
    if not cursor.execute(sql.some_element.sql, (id,)).fetchone():
        return
    noted = _noted(cursor, sql)
    if noted:
        cursor.execute(sql.set_meta.sql, (_text([*noted, id]), SWEEP))
    else:
        cursor.execute(sql.new_meta.sql, (SWEEP, _text([id])))


def sweep(cursor: Cursor, sql: Writes) -> bool:
    """One step. True: there is more to do."""
    noted = _noted(cursor, sql)
    if not noted:
        return False
    id = noted[0]
    last, count = cursor.execute(sql.first_elements.sql, (id, ROWS)).fetchone()
    if count == ROWS:
        take(cursor, sql, id, 0, last)
        return True
    take(cursor, sql, id, 0, NO_END)
    del noted[0]
    if noted:
        cursor.execute(sql.set_meta.sql, (_text(noted), SWEEP))
    else:
        cursor.execute(sql.drop_meta.sql, (SWEEP,))
    return bool(noted)


def take(cursor: Cursor, sql: Writes, id: int, first: int, last: int) -> None:
    """Everything of the elements from `first` to `last`; -1 is the task or the array itself."""
    for statement in (sql.erase_attempts, sql.erase_events, sql.erase_tasks):
        cursor.execute(statement.sql, (id, first, last))


def _noted(cursor: Cursor, sql: Writes) -> list[int]:
    row = cursor.execute(sql.meta.sql, (SWEEP,)).fetchone()
    return [] if row is None else to_sweep(row[0])


def _text(ids: list[int]) -> str:
    return " ".join(map(str, ids))
