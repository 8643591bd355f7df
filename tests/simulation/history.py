"""What happened, in order, as lines. Their hash is the run's fingerprint."""

from __future__ import annotations

import hashlib
from collections.abc import Callable


class Violation(Exception):
    """A promise was broken. The first word is the rule's name."""

    def __init__(self, rule: str, what: str) -> None:
        super().__init__(f"{rule}: {what}")
        self.rule, self.what = rule, what


class History:
    def __init__(self, time: Callable[[], float]) -> None:
        self._time = time
        self.lines: list[str] = []
        self.violations: list[Violation] = []

    def add(self, text: str) -> None:
        self.lines.append(f"{self._time():10.3f} {text}")

    def broken(self, rule: str, what: str) -> None:
        """Kept, not raised: the product must not be able to swallow it."""
        violation = Violation(rule, what)
        self.violations.append(violation)
        self.add(f"VIOLATION {violation}")

    def fingerprint(self) -> str:
        return hashlib.sha256("\n".join(self.lines).encode()).hexdigest()
