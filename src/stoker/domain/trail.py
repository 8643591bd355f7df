"""The chain of acts: each hash is made of the one before and of everything the act says.

So an act that was changed, put in or taken out breaks every later one, and whoever noted a hash can
tell later whether what led to it is still there. Pure: server and offline checks use this.
"""

from __future__ import annotations

from hashlib import sha256

BEGIN = "0" * 64
"""What the first act follows."""


def link(before: str, seq: int, body: str) -> str:
    """The hash of an act that follows the one with the hash `before`."""
    return sha256(f"{before}\n{seq}\n{body}".encode()).hexdigest()


class Trail:
    """Acts one after the other, from the first one on."""

    def __init__(self, noted: str = "") -> None:
        self.count, self.head = 0, BEGIN
        self._noted = noted
        self.noted: int | None = None
        """The act with the hash that was noted, once it has come."""

    def follows(self, seq: int, body: str, hash: str) -> bool:
        """Whether this is the next act; if not, nothing after it means anything."""
        if seq != self.count + 1 or hash != link(self.head, seq, body):
            return False
        self.count, self.head = seq, hash
        if hash == self._noted:
            self.noted = seq
        return True
