"""Calls in the runner's loop: who asked, who still works on it, what took too long. Never waits.

Work is bounded per account: what hangs in a dead home folder cannot be ended, only counted. So are
log-ins, all together: each takes seconds when the password is wrong.
"""

from __future__ import annotations

import json
import time
from typing import Callable, Dict, Tuple

from .calls import AS_ROOT, BUSY, MOST_BYTES, TIMEOUT, UNKNOWN_VERB, VERBS, Errand
from .protocol import Answer, Call

KEY = "call-"
"""What the forker calls such a process, with its ticket."""
_LONGEST_S = 60.0
_MOST_EACH, _MOST = 8, 64
_FORGOTTEN_S = 600.0
"""The word that a process has ended may be lost; nobody is shut out by that for ever."""
_LAST_WORD_S = 1.0
"""An answer may be under way when its process has ended."""

Reply = Callable[[Answer], None]


class CallDesk:
    """`run_errand(key, line)` has a process forked that becomes the account."""

    def __init__(self, run_errand: Callable[[str, bytes], None]) -> None:
        self._run_errand = run_errand
        self._last = 0
        self._open: Dict[int, Tuple[int, Reply, float]] = {}
        self._at_work: Dict[int, Tuple[str, float]] = {}
        """Processes that have not ended: ticket to what it counts under, and its beginning."""

    def ask(self, call: Call, reply: Reply) -> None:
        """Answer now or later."""
        error = self._refusal(call)
        if error:
            reply(Answer(call.id, error=error))
            return
        self._last += 1
        limit_s = max(0.1, min(float(call.timeout_s), _LONGEST_S))
        now = time.monotonic()
        self._open[self._last] = (call.id, reply, now + limit_s)
        self._at_work[self._last] = (_counted(call), now)
        errand = Errand(self._last, call.verb, call.account, call.args, limit_s)
        self._run_errand(f"{KEY}{self._last}", errand.line())

    def answer(self, found: Answer) -> None:
        """From a process that became the account; a late one has no ticket any more."""
        waiting = self._open.pop(found.id, None)
        if waiting is not None:
            name, reply, _ = waiting
            reply(Answer(name, found.result, found.error))

    def ended(self, key: str) -> None:
        """The process of a call is gone, with or without an answer."""
        ticket = int(key[len(KEY) :])
        self._at_work.pop(ticket, None)
        if ticket in self._open:
            name, reply, until = self._open[ticket]
            self._open[ticket] = (name, reply, min(until, time.monotonic() + _LAST_WORD_S))

    def give_up(self, now: float) -> None:
        """Answer what has waited too long."""
        for ticket, (name, reply, until) in list(self._open.items()):
            if now >= until:
                del self._open[ticket]
                reply(Answer(name, error=TIMEOUT))
        for ticket, (_, begun) in list(self._at_work.items()):
            if now >= begun + _FORGOTTEN_S:
                del self._at_work[ticket]

    def _refusal(self, call: Call) -> str:
        if call.verb not in VERBS and call.verb not in AS_ROOT:
            return UNKNOWN_VERB
        if len(json.dumps(call.args)) > MOST_BYTES:
            return "the call is too long"
        whose = _counted(call)
        theirs = sum(one == whose for one, _ in self._at_work.values())
        return BUSY if theirs >= _MOST_EACH or len(self._at_work) >= _MOST else ""


def _counted(call: Call) -> str:
    """Under what it counts: its account, or for all of them together what no account is called."""
    return f"/{call.verb}" if call.verb in AS_ROOT else call.account
