"""What the lab has decided, and the audit trail: the tables `entries` and `audit`.

An act is appended in the transaction of what it did. Its hash is made of the hash before it and of
all that the row says, so that a row that was changed, put in or taken out breaks every later one.
The last hash is read in that transaction: what is rolled back leaves no gap.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import sqlalchemy as sa

from stoker.domain.errors import StaleWrite
from stoker.domain.trail import BEGIN, Trail, link

from .base import Act, Amendment, Audited, Chain, Entry, TrailRow
from .codec import encode, to_us
from .reading import ReadPool
from .statements import ZERO, Cursor, compiled
from .tables import audit, entries

CHUNK = 1000

_decode_act = msgspec.json.Decoder(Act).decode


class LabRecords:
    def __init__(self, pool: ReadPool) -> None:
        self._pool = pool
        dialect = pool.dialect
        is_it = sa.and_(
            entries.c.kind == sa.bindparam("kind_"), entries.c.name == sa.bindparam("name_")
        )
        at_version = sa.and_(is_it, entries.c.version == sa.bindparam("before"))
        self._new = compiled(dialect, sa.insert(entries), *entries.columns.keys()).sql
        self._change = compiled(
            dialect,
            sa.update(entries)
            .values(version=sa.bindparam("after"), body=sa.bindparam("text"))
            .where(at_version),
        )
        self._hide = compiled(
            dialect, sa.update(entries).values(secret=sa.bindparam("hidden")).where(is_it)
        ).sql
        self._remove = compiled(dialect, sa.delete(entries).where(at_version)).sql
        self._all = compiled(
            dialect,
            sa.select(entries.c.kind, entries.c.name, entries.c.version, entries.c.body).order_by(
                entries.c.kind, entries.c.name
            ),
        ).sql
        self._secret = compiled(dialect, sa.select(entries.c.secret).where(is_it)).sql
        self._append = compiled(dialect, sa.insert(audit), *audit.columns.keys()).sql
        newest = sa.select(audit.c.seq, audit.c.hash).order_by(audit.c.seq.desc())
        self._last = compiled(dialect, newest.limit(sa.literal_column("1")).offset(ZERO)).sql
        chosen = sa.select(audit.c.seq, audit.c.body, audit.c.hash)
        number = sa.bindparam("number", type_=sa.BigInteger)
        most = sa.bindparam("most", type_=sa.Integer)
        self._before = compiled(
            dialect,
            chosen.where(audit.c.seq < number)
            .order_by(audit.c.seq.desc())
            .limit(most)
            .offset(ZERO),
        ).sql
        self._after = compiled(
            dialect,
            chosen.where(audit.c.seq > number).order_by(audit.c.seq).limit(most).offset(ZERO),
        ).sql

    # ---- in the writer's thread

    def write(self, cursor: Cursor, amendments: Sequence[Amendment], acts: Sequence[Act]) -> None:
        for amendment in amendments:
            self._amend(cursor, amendment)
        cursor.execute(self._last)
        seq, last = cursor.fetchone() or (0, BEGIN)
        for act in acts:
            body = encode(act)
            seq, last = seq + 1, link(last, seq + 1, body)
            cursor.execute(self._append, (seq, to_us(act.at), body, last))

    def _amend(self, cursor: Cursor, new: Amendment) -> None:
        key = (new.kind, new.name)
        if new.body is None:
            cursor.execute(self._remove, (*key, new.before))
        elif new.before:
            cursor.execute(self._change.sql, (new.before + 1, new.body, *key, new.before))
        else:
            cursor.execute(self._secret, key)
            if cursor.fetchone() is not None:
                raise StaleWrite
            cursor.execute(self._new, (*key, 1, new.body, new.secret or None))
            return
        if cursor.rowcount != 1:
            raise StaleWrite
        if new.body is not None and new.secret is not None:
            cursor.execute(self._hide, (new.secret or None, *key))

    # ---- in any thread

    def entries(self) -> list[Entry]:
        return [Entry(*row) for row in self._pool.fetch(self._all)]

    def secret(self, kind: str, name: str) -> str | None:
        rows = self._pool.fetch(self._secret, (kind, name))
        return rows[0][0] if rows else None

    def audited(
        self, before: int | None, limit: int, who: str = "", act: str = ""
    ) -> list[Audited]:
        """Filters look through all acts: there is an index of none, and few ask."""
        found: list[Audited] = []
        last, chunk = 2**62 if before is None else before, CHUNK if who or act else limit
        while rows := self._pool.fetch(self._before, (last, chunk)):
            acts = (Audited(seq, _decode_act(body), hash) for seq, body, hash in rows)
            found += [one for one in acts if _is_wanted(one.act, who, act)]
            last = rows[-1][0]
            if len(found) >= limit or len(rows) < chunk:
                break
        return found[:limit]

    def trail(self, after: int, limit: int) -> list[TrailRow]:
        return [TrailRow(*row) for row in self._pool.fetch(self._after, (after, limit))]

    def verify(self, noted: str = "") -> Chain:
        trail, seq = Trail(noted), 0
        while rows := self.trail(seq, CHUNK):
            for row in rows:
                if not trail.follows(row.seq, row.body, row.hash):
                    return Chain(trail.count, trail.head, row.seq, trail.noted)
                seq = row.seq
        return Chain(trail.count, trail.head, None, trail.noted)


def _is_wanted(act: Act, who: str, word: str) -> bool:
    return who in ("", act.who) and (word in ("", act.act) or act.act.startswith(f"{word}."))
