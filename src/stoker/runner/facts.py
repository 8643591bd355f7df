"""What the records say, as facts for the server (PROTOCOL 4).

Reads only, but for one act: a part whose supervisor died is handed to the ender, and is `lost`
only when nothing is left of it; until then it counts as running. Nothing here is state that a
restart would miss: everything is found again from the spool.
"""

from __future__ import annotations

from typing import Callable, Dict, List, Optional

from .identity import Process
from .layout import split_key
from .protocol import Listing, Seen
from .readlog import small_log
from .record import Record, look
from .spool import Spool

_SMALL_LOG = 8192
_LOGS_PER_LISTING = 256 * 1024
"""Base64 characters: a listing after a long absence must stay readable in one go."""


class Facts:
    """The parts of a spool."""

    def __init__(self, spool: Spool, end: Callable[[Record], None]) -> None:
        self._spool = spool
        self._end = end
        self._ending: Dict[str, Process] = {}
        """Parts that were handed to the ender, and the supervisor that died."""
        self._gone: Dict[str, Process] = {}
        """Likewise, once nothing is left."""
        self._stuck: Dict[str, str] = {}
        self.part_of_pid: Dict[int, str] = {}
        """Supervisors and main processes of the parts that run. Read by another thread."""
        self.supervisors: Dict[str, Process] = {}
        """Those that lived when all parts were last looked at."""

    def one(self, key: str) -> Optional[Seen]:
        """One part now; None when there is nothing to report."""
        record = look(self._spool.dir_fd, key)
        return None if record is None else self.of(record, with_log=True)

    def of(self, record: Record, *, with_log: bool = False) -> Optional[Seen]:
        """What a record means now; None when it is not to be reported."""
        state = self._state(record)
        place = split_key(record.key)
        if not state or place is None:
            return None
        self._spool.note_number(record.number)
        child = record.child or {}
        if state == "running" and child:
            self.part_of_pid[int(child["pid"])] = record.key
        log = None
        if state == "ended" and with_log:
            log = small_log(self._spool.dir_fd, record.key, _SMALL_LOG)
        evidence = ""
        if state == "lost":
            evidence = "supervisor_died" if self._is_of_this_boot(record) else "rebooted"
        return Seen(
            attempt=place[0],
            rank=place[1],
            number=record.number,
            state=state,
            started_at=float(child.get("at", 0.0)),
            pid=int(child.get("pid", 0)),
            exit=record.exit,
            evidence=evidence,
            stuck="" if state != "running" else self._stuck.get(record.key, record.stuck),
            log=log,
            gpus=list(record.claim.get("gpus", ())),
            limit_s=self._limit(record) if state in ("starting", "running") else -1,
        )

    def all(self) -> Listing:
        """Every part in the spool."""
        room = _LOGS_PER_LISTING
        parts: List[Seen] = []
        owners: Dict[int, str] = {}
        self.supervisors = {}
        for key in self._spool.parts():
            record = look(self._spool.dir_fd, key)
            seen = None if record is None else self.of(record, with_log=room > 0)
            if record is None or seen is None:
                continue
            room -= len(seen.log or "")
            parts.append(seen)
            if record.exit is None and record.is_held and record.supervisor is not None:
                self.supervisors[key] = record.supervisor
            if record.exit is None:
                owners.update(
                    (who.pid, key) for who in (record.supervisor, record.main) if who is not None
                )
        self.part_of_pid = owners
        return Listing(self._spool.incarnation, self._spool.highest, parts)

    def nothing_left(self, key: str) -> None:
        """The ender is done with a part."""
        dead = self._ending.pop(key, None)
        if dead is not None:
            self._gone[key] = dead
        self._stuck.pop(key, None)

    def is_stuck(self, key: str, why: str) -> None:
        """The ender cannot end something of a part."""
        self._stuck[key] = why

    def forgotten(self, key: str) -> None:
        """There is no record any more."""
        self._gone.pop(key, None)
        self._stuck.pop(key, None)

    def _state(self, record: Record) -> str:
        """The truth table; "" = not to be reported."""
        if record.exit is not None:
            return "ended"
        if not self._is_of_this_boot(record):
            return "lost"
        supervisor = record.supervisor
        if record.child is None or supervisor is None:
            return self._state_unbegun(record)
        if record.is_held:
            return "running"
        if self._gone.get(record.key) == supervisor:
            return "lost"
        self._ending[record.key] = supervisor
        self._end(record)
        return "running"

    def _state_unbegun(self, record: Record) -> str:
        if not self._spool.mark.is_set(record.number):
            return "starting" if record.is_held else "never_ran"
        if not record.is_held:
            self._spool.drop_record(record.key)
        return ""

    def _limit(self, record: Record) -> int:
        """As it is now, in the words of `Seen`."""
        if "limit" not in record.claim:
            return -1
        told = self._spool.limit(record.key)
        limit_s = record.claim["limit"] if told is None else told.limit_s
        return 0 if limit_s is None else int(limit_s)

    def _is_of_this_boot(self, record: Record) -> bool:
        return record.claim.get("boot") == self._spool.incarnation.boot_id
