"""How often somebody may try to log in. No clock and no records: time is an argument.

From the fifth failure in a row on, each one doubles how long the next try has to wait, up to 15
minutes: per account and per address. Nobody is locked out for good, and no stranger keeps a person
out: from a place where that person has logged in before, only failures of this person at this
place count. What waits is not tried at all, so it tells nothing and counts nothing.

Names that are no account's are counted like all others, but never kept: people type passwords
there by mistake.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from datetime import datetime, timedelta
from hashlib import sha256
from typing import NamedTuple

from stoker.domain.errors import RequestError
from stoker.domain.person import Failures, Tries

FREE = 5
"""So many failures in a row cost nothing but the last."""
MOST_WAIT_S = 15 * 60
FORGOTTEN = timedelta(days=1)
"""After so long without a failure."""
MOST_KEYS = 10_000
MOST_KEPT = 1000
MOST_PLACES = 8
MOST_AT_ONCE = 16
"""Tries that have not ended yet."""


class Try(NamedTuple):
    """One log-in that is under way."""

    name: str
    place: str
    keys: tuple[str, ...]


class Throttle:
    def __init__(self, kept: Tries | None = None) -> None:
        self._failed: dict[str, Failures] = dict(kept.failed) if kept else {}
        self._places: dict[str, tuple[str, ...]] = dict(kept.places) if kept else {}
        self._under_way: dict[str, int] = {}

    def begin(self, name: str, address: str, now: datetime, *, is_known: bool) -> Try:
        """A try begins; it must be ended by one of `failed`, `succeeded` and `withdrawn`.
        RequestError when it has to wait."""
        place = _place(address)
        account = f"{'person' if is_known else 'nobody'} {_short(name)}"
        keys: tuple[str, ...] = (account, f"address {place}")
        if place in self._places.get(name, ()):
            keys = (f"{account} at {place}",)
        wait = max(self._wait(key, now) for key in keys)
        if wait > 0:
            raise RequestError("too_many_logins", retry_after_s=wait)
        for key in keys:
            self._under_way[key] = self._under_way.get(key, 0) + 1
        return Try(name, place, keys)

    def failed(self, attempt: Try, now: datetime) -> bool:
        """The password was wrong. Whether that is worth a note: waiting begins, or is at its worst."""
        self.withdrawn(attempt)
        worst = 0
        for key in attempt.keys:
            before = self._failed.get(key)
            count = 1 if before is None or now - before.last > FORGOTTEN else before.count + 1
            self._failed[key] = Failures(count, now)
            worst = max(worst, count)
        if len(self._failed) > MOST_KEYS:
            self._make_room(now)
        return worst == FREE or (wait_s(worst - 1) < wait_s(worst) == MOST_WAIT_S)

    def succeeded(self, attempt: Try) -> bool:
        """The password was right. Whether that changes what is kept.

        The address stays as it is: else somebody who has an account could try others' for ever.
        """
        self.withdrawn(attempt)
        account = [key for key in attempt.keys if not key.startswith("address ")]
        counts = [found.count for key in account if (found := self._failed.pop(key, None))]
        places = self._places.pop(attempt.name, ())
        others = [place for place in places if place != attempt.place]
        self._places[attempt.name] = (*others[1 - MOST_PLACES :], attempt.place)
        if len(self._places) > MOST_KEYS:
            del self._places[next(iter(self._places))]
        return attempt.place not in places or any(count >= FREE for count in counts)

    def withdrawn(self, attempt: Try) -> None:
        """It could not be found out whether the password was right."""
        for key in attempt.keys:
            left = self._under_way.pop(key, 1) - 1
            if left > 0:
                self._under_way[key] = left

    def kept(self, now: datetime) -> Tries:
        """What must be known after a restart: who has to wait, and who comes from where."""
        worth = {
            key: failures
            for key, failures in self._failed.items()
            if failures.count >= FREE and not key.startswith("nobody ")
        }
        newest = sorted(worth, key=lambda key: worth[key].last, reverse=True)[:MOST_KEPT]
        failed = {key: worth[key] for key in newest if now - worth[key].last <= FORGOTTEN}
        return Tries(failed=failed, places=dict(self._places))

    def __len__(self) -> int:
        return len(self._failed)

    def _wait(self, key: str, now: datetime) -> int:
        failures, under_way = self._failed.get(key), self._under_way.get(key, 0)
        if failures is None or failures.count < FREE:
            return 1 if under_way >= MOST_AT_ONCE else 0
        if failures.last > now:  # the clock was put back: nobody waits for it to catch up
            failures = self._failed[key] = Failures(failures.count, now)
        if now - failures.last > FORGOTTEN:
            return 0
        left = wait_s(failures.count) - (now - failures.last).total_seconds()
        if left > 0:
            return int(left) + (left != int(left))
        return 1 if under_way else 0

    def _make_room(self, now: datetime) -> None:
        """The old go, then those with the fewest failures: flooding hides no long row of them."""
        for key in list(self._old(now)):
            del self._failed[key]
        if len(self._failed) > MOST_KEYS:
            by_count = sorted(self._failed.items(), key=lambda item: (item[1].count, item[1].last))
            for key, _ in by_count[: MOST_KEYS // 10]:
                del self._failed[key]

    def _old(self, now: datetime) -> Iterator[str]:
        return (key for key, found in self._failed.items() if now - found.last > FORGOTTEN)


def wait_s(failures: int) -> int:
    """How long the next try has to wait after so many failures."""
    if failures < FREE:
        return 0
    doublings = min(failures - FREE, MOST_WAIT_S.bit_length())
    return min(1 << doublings, MOST_WAIT_S)


def _short(name: str) -> str:
    return sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _place(address: str) -> str:
    """Somebody who has one IPv6 address has 2^64 of them."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address[:64]
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((found.packed, 64), strict=False))
