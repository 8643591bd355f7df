"""Carrying out the server's orders: launch, stop, extend, forget (PROTOCOL 3.2, 5, 3.7).

Each may be repeated any number of times, and the runner may die on any line. Nothing here waits.
An order of a lower epoch or for another incarnation is refused before anything else is looked at.
"""

from __future__ import annotations

import dataclasses
import time
from typing import Any, Callable, Dict, Optional, Union

from . import killpoint
from .facts import Facts
from .identity import send
from .layout import split_key
from .limit import Limit
from .note import note
from .protocol import Exit, Extend, Forget, Launch, Refused, Seen, Stop, build, part_key
from .record import Record, look
from .spool import Spool
from .watch import ORDER, WAKE

Order = Union[Launch, Stop, Extend, Forget]
_HIGHEST = 1 << 32


class Orders:
    """`launch(key, line)` hands a launch to the forker, `tell` pushes a fact to the server."""

    def __init__(
        self,
        spool: Spool,
        facts: Facts,
        launch: Callable[[str, bytes], None],
        tell: Callable[[Seen], None],
    ) -> None:
        self._spool = spool
        self._facts = facts
        self._launch = launch
        self._tell = tell

    def carry_out(self, order: Order, raw: bytes) -> Optional[Refused]:
        """Do it, or say why not. Raises ValueError for an order that makes no sense."""
        key = part_key(order.attempt, order.rank)
        if split_key(key) is None or not 0 < order.number < _HIGHEST:
            raise ValueError(f"not an order: {key!r} {order.number!r}")
        if not self._spool.raise_epoch(order.epoch):
            return _refused(order, "epoch")
        mine = self._spool.incarnation
        if isinstance(order, Forget):  # a record may be of an earlier life of the node
            mine = dataclasses.replace(mine, boot_id=order.incarnation.boot_id)
        if order.incarnation != mine:
            return _refused(order, "incarnation")
        if isinstance(order, Launch):
            return self.launch(order, key, raw)
        if isinstance(order, Stop):
            self.stop(order, key)
        elif isinstance(order, Extend):
            self.extend(order, key)
        else:
            self.forget(order, key)
        return None

    def launch(self, order: Launch, key: str, raw: bytes) -> Optional[Refused]:
        """Ensure that it runs: hand it to the forker unless it has a record."""
        spool = self._spool
        # Room for its bit comes first: what begins must be possible to forget on a full disk.
        spool.mark.cover(order.number)
        spool.note_number(order.number)
        if spool.has_record(key):
            self._push(key)
            return None
        if spool.mark.is_set(order.number):
            return self._refused_as_forgotten(order, key)
        killpoint.reach(killpoint.ACCEPTED)
        self._launch(key, raw)
        return None

    def stop(self, order: Stop, key: str) -> None:
        """End it; without a record, see to it that it never begins."""
        record = look(self._spool.dir_fd, key)
        if record is None:
            if self._spool.mark.is_set(order.number):
                self._tell(self._end_of_forgotten(order, key))
                return
            self._spool.note_number(order.number)
            self._spool.mark.set(order.number)
            record = look(self._spool.dir_fd, key)
            if record is None:
                revoked = _revoked(order)
                self._note(key, revoked, {})  # its number is used: say for what
                self._tell(revoked)
                return
        if record.exit is None and record.is_held:
            self._signal(record, order)
        else:
            self._push(key)

    def extend(self, order: Extend, key: str) -> None:
        """Another limit for what runs, or is about to: left for its supervisor, then it is woken.

        Raises OSError on a full disk: the server sees that nothing changed, and sends it again.
        """
        record = look(self._spool.dir_fd, key)
        if record is None:
            return
        if record.exit is None and record.is_held and "limit" in record.claim:
            told = Limit(order.time_limit_s, order.epoch, order.serial)
            known = self._spool.limit(key)
            if known is None or told.age > known.age:
                self._spool.write_limit(key, told)
                killpoint.reach(killpoint.LIMITED)
            if record.supervisor is not None:
                send(record.supervisor, WAKE)
        self._push(key)

    def forget(self, order: Forget, key: str) -> None:
        """Drop a part whose end the server has. One that still runs is left alone."""
        record = look(self._spool.dir_fd, key)
        if record is None:
            self._spool.mark.set(order.number)
            self._facts.forgotten(key)
            return
        if record.exit is None and record.is_held:
            note(f"{key} is to be forgotten but runs")
            return
        seen = self._facts.of(record)
        if seen is not None and seen.state == "running":
            return  # its supervisor is dead, but something of it is left
        if seen is not None:
            self._note(key, seen, record.claim)
        # Both, if it was sent again under a new number; a torn record has none.
        numbers = {order.number, record.number} - {0}
        self._spool.forget(key, numbers, str(record.claim.get("account", "")))
        self._facts.forgotten(key)

    def _signal(self, record: Record, order: Stop) -> None:
        try:
            self._spool.write_control(record.key, record.number, order.cause, order.grace_s)
        except OSError as error:  # a signal by itself means cancel
            note(f"{record.key}: cannot write its order: {error}")
        supervisor = record.supervisor
        if supervisor is not None:
            send(supervisor, ORDER)

    def _note(self, key: str, seen: Seen, claim: Dict[str, Any]) -> None:
        fact: Dict[str, Any] = {
            "key": key,
            "at": time.time(),
            "number": seen.number,
            "state": seen.state,
            "evidence": seen.evidence,
            "started_at": seen.started_at,
            "exit": None if seen.exit is None else dataclasses.asdict(seen.exit),
            "gpus": seen.gpus,
            **{name: claim[name] for name in ("whose", "boot", "epoch") if name in claim},
        }
        try:
            self._spool.ended.append(fact)
        except OSError as error:
            note(f"{key}: its end is not in ended.jsonl: {error}")

    def _push(self, key: str) -> None:
        seen = self._facts.one(key)
        if seen is not None:
            self._tell(seen)

    def _refused_as_forgotten(self, order: Launch, key: str) -> Refused:
        known = self._spool.ended.find(key)
        refused = _refused(order, "forgotten")
        if known is None:
            return refused
        return dataclasses.replace(refused, exit=_exit(known), state=str(known["state"]))

    def _end_of_forgotten(self, order: Stop, key: str) -> Seen:
        known = self._spool.ended.find(key)
        if known is None:
            return _revoked(order)
        return Seen(
            order.attempt,
            order.rank,
            order.number,
            str(known["state"]),
            started_at=float(known["started_at"]),
            exit=_exit(known),
            evidence=str(known["evidence"]),
        )


def _refused(order: Order, why: str) -> Refused:
    return Refused(order.attempt, order.rank, order.number, why)


def _revoked(order: Stop) -> Seen:
    cause = "requeue" if order.cause == "requeue" else "revoked"
    end = Exit(cause=cause, at=time.time())
    return Seen(order.attempt, order.rank, order.number, "ended", exit=end)


def _exit(known: Dict[str, Any]) -> Optional[Exit]:
    found: Optional[Exit] = build(Exit, known["exit"]) if known["exit"] else None
    return found
