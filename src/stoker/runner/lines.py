"""A fact as one line on disk: JSON, a checksum, a newline.

A line counts only whole: what a crash or a full disk tore is not there. Readers stop at a NUL,
because files are preallocated with zeros.
"""

from __future__ import annotations

import json
import zlib
from typing import Any, Dict, List, Optional

_encode = json.JSONEncoder(separators=(",", ":")).encode


def pack(fact: Dict[str, Any]) -> bytes:
    """One line."""
    return sealed(_encode(fact).encode("ascii"))


def sealed(body: bytes) -> bytes:
    """One line from a JSON object that is text already."""
    return b"%s %08x\n" % (body, zlib.crc32(body))


def unpack(raw: bytes) -> List[Dict[str, Any]]:
    """Every whole line up to the first NUL, or up to the first torn one."""
    facts = []
    for line in raw.partition(b"\0")[0].split(b"\n")[:-1]:
        fact = unpack_one(line)
        if fact is None:
            break
        facts.append(fact)
    return facts


def unpack_one(line: bytes) -> Optional[Dict[str, Any]]:
    """The fact in a line without its newline; None when it is not whole."""
    body, _, checksum = line.rpartition(b" ")
    if checksum != b"%08x" % zlib.crc32(body):
        return None
    fact = json.loads(body)
    return fact if isinstance(fact, dict) else None
