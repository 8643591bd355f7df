"""Labelled places to die (PROTOCOL.md, the ▲ points). A no-op in production.

With STOKER_KILL_POINTS set to a folder, a process that reaches point `p` removes the file `p` there
and kills itself; with a file `p.pause` it stops itself (SIGSTOP) instead. Removing is atomic, so
one file stands for one death, in whichever process comes first. Every visit is counted by an
append to `p.seen`, so that a suite can fail for a point that nobody reached.
"""

from __future__ import annotations

import os
import signal

PLACE = "1-place"  # server, before the commit of an intent
PLACED = "2-placed"  # server, after it
ACCEPTED = "3-accepted"  # runner, a launch checked and not yet handed to the forker
CLAIM = "4-claim"  # supervisor, before link(): nobody knows of it yet
CLAIMED = "4-claimed"  # supervisor, after link()
FORKED = "4-forked"  # supervisor, the child waits and its line is not written
BEGUN = "5-begun"  # supervisor, after the child's exec
ENDED = "6-ended"  # supervisor, nothing left of the attempt, no exit line yet
RECORDED = "7-recorded"  # supervisor, exit line durable, datagram not sent
COLLECT = "8-collect"  # server, before the commit of an end
COLLECTED = "9-collected"  # server, after it, before the log is copied
FORGOTTEN = "10-forgotten"  # runner, bit set, files not yet unlinked
EXTENDED = "11-extended"  # server, another time limit is recorded, its node not yet told
LIMITED = "12-limited"  # runner, another time limit left for a supervisor, which is not yet woken

POINTS = (
    PLACE, PLACED, ACCEPTED, CLAIM, CLAIMED, FORKED, BEGUN, ENDED, RECORDED, COLLECT, COLLECTED,
    FORGOTTEN, EXTENDED, LIMITED,
)  # fmt: skip

# Of commands about the records, which no supervision is part of.
SNAPSHOT = "snapshot"  # a copy of the records is written beside, not yet renamed
MIGRATED = "migrated"  # the new schema is made, not yet committed
COPYING = "copying"  # the target's transaction has begun
COPIED = "copied"  # everything is in the target and agrees, not yet committed
ARCHIVED = "archived"  # a backup is written beside, not yet renamed
UNPACKED = "unpacked"  # a restore is ready beside, nothing is decided
DECIDED = "decided"  # a restore is decided and nothing is moved
ASIDE = "aside"  # the former records are aside, the others not yet in their place
SWAPPED = "swapped"  # a restore is in its place and not yet tidied up

UPKEEP = (
    SNAPSHOT, MIGRATED, COPYING, COPIED, ARCHIVED, UNPACKED, DECIDED, ASIDE, SWAPPED,
)  # fmt: skip

_folder: str = ""


def arm(folder: str) -> None:
    """Called once by each program's main, with STOKER_KILL_POINTS or ""."""
    global _folder  # noqa: PLW0603 - one switch per process, set before anything else
    _folder = folder


def reach(point: str) -> None:
    """We are at `point`."""
    if _folder:
        _act(point)


def _act(point: str) -> None:
    path = os.path.join(_folder, point)
    with open(path + ".seen", "ab") as seen:
        seen.write(b".")
    for suffix, number in (("", signal.SIGKILL), (".pause", signal.SIGSTOP)):
        try:
            os.unlink(path + suffix)
        except FileNotFoundError:
            continue
        os.kill(os.getpid(), number)
