"""What was launched above a number: asked by a server whose records are older than the spool.

Records and `ended.jsonl` together tell it; a number that is marked as used and is in neither is
said to be unexplained. Reads only.
"""

from __future__ import annotations

from typing import Any, Dict, List

from .facts import Facts
from .layout import split_key
from .protocol import Exit, Past, Recalled, Seen, build
from .record import look
from .spool import Spool

_MOST = 1000


def recall(spool: Spool, facts: Facts, above: int) -> Recalled:
    """Parts in the order of their numbers."""
    found: Dict[str, Past] = {}
    explained = set()
    for fact in spool.ended.above(above):
        explained.add(int(fact["number"]))
        past = _forgotten(fact)
        if past is not None:
            found[str(fact["key"])] = past
    for key in spool.parts():
        record = look(spool.dir_fd, key)
        seen = None if record is None or record.number <= above else facts.of(record)
        if record is None or seen is None:
            continue
        explained.add(record.number)
        found[key] = Past(
            seen,
            whose=str(record.claim.get("whose", "")),
            boot_id=str(record.claim.get("boot", "")),
            epoch=int(record.claim.get("epoch", 0)),
        )
    unexplained: List[int] = []
    for number in range(above + 1, spool.highest + 1):
        if number not in explained and spool.mark.is_set(number) and len(unexplained) < _MOST:
            unexplained.append(number)
    parts = sorted(found.values(), key=lambda past: past.seen.number)
    return Recalled(spool.incarnation, parts, unexplained)


def _forgotten(fact: Dict[str, Any]) -> Any:
    """A line of `ended.jsonl`; None for one that makes no sense."""
    place = split_key(str(fact["key"]))
    if place is None:
        return None
    seen = Seen(
        attempt=place[0],
        rank=place[1],
        number=int(fact["number"]),
        state=str(fact["state"]),
        started_at=float(fact.get("started_at", 0.0)),
        exit=build(Exit, fact["exit"]) if fact.get("exit") else None,
        evidence=str(fact.get("evidence", "")),
        gpus=list(fact.get("gpus", ())),
    )
    return Past(
        seen,
        whose=str(fact.get("whose", "")),
        boot_id=str(fact.get("boot", "")),
        epoch=int(fact.get("epoch", 0)),
    )
