"""How a task is shown: its title, its state, its times. Text from tasks is made harmless here."""

from __future__ import annotations

import os
import re
import shlex
from datetime import UTC, datetime, timedelta

from stoker.domain.task import TaskSpec
from stoker.text import state_word
from stoker.text.amounts import duration
from stoker.wire import ArrayCounts, TaskView

from .say import language, words
from .screen import clean

STATE_COLOURS = {
    "HELD": "dim", "QUEUED": "yellow", "STARTING": "cyan", "RUNNING": "cyan", "STOPPING": "yellow",
    "succeeded": "green", "failed": "red", "timed_out": "red", "lost": "red", "cancelled": "dim",
}  # fmt: skip
MOST_TITLE = 200
NOT_SHOWN = "·"
"""In the place of what only the owner sees."""
_PLACE = re.compile(r"\{[A-Za-z_][A-Za-z0-9_]*\}")


def title(task: TaskView) -> str:
    """Its name, or else the beginning of its command; of an element of a sweep its values too."""
    spec = spec_of(task)
    if task.sweep:
        from .sweeps import element_title

        return clean(element_title(spec, task.sweep)[:MOST_TITLE])
    if task.reduced and not (spec.name or spec.command):
        return NOT_SHOWN
    return clean((spec.name or command_text(spec))[:MOST_TITLE])


def command_text(spec: TaskSpec) -> str:
    """The command as one could type it."""
    if isinstance(spec.command, str):
        return spec.command
    return " ".join(map(_quoted if spec.sweep else shlex.quote, spec.command))


def spec_of(task: TaskView) -> TaskSpec:
    """As it was decoded: on this side of the wire a spec is never raw."""
    assert isinstance(task.spec, TaskSpec)
    return task.spec


def _quoted(word: str) -> str:
    """A place for a value needs no quotes: no shell sees anything in it."""
    bare = _PLACE.sub("x", word)
    return word if shlex.quote(bare) == bare else shlex.quote(word)


def state(task: TaskView) -> str:
    return state_word(task.state, task.outcome, language())


def state_colour(task: TaskView) -> str:
    return STATE_COLOURS.get(task.outcome or task.state, "")


def placed_on(node: str | None, gpu_ids: tuple[int, ...]) -> str:
    """A node and cards of it."""
    where = clean(node or "?")
    return f"{where}, GPU {', '.join(map(str, gpu_ids))}" if gpu_ids else where


def progress(array: ArrayCounts) -> str:
    """How far an array is: `3/10 done, 4 running, 1 failed`."""
    ended = array.succeeded + array.failed + array.cancelled + array.timed_out + array.lost
    parts = [words("array.done", ended=ended, size=array.size)]
    if array.live:
        parts.append(words("array.live", count=array.live))
    for outcome in ("failed", "timed_out", "lost", "cancelled"):
        count = getattr(array, outcome)
        if count:
            word = state_word("FINISHED", outcome, language())
            parts.append(words("array.ended", count=count, outcome=word))
    return ", ".join(parts)


def gpus(task: TaskView) -> str:
    """The cards it has, or how many it asks for."""
    if task.gpu_ids:
        return ",".join(map(str, task.gpu_ids))
    count = spec_of(task).gpus
    return f"({count})" if count and task.node is None else "-"


def since(task: TaskView) -> datetime:
    """When it came to where it is."""
    return task.finished_at or task.started_at or task.submitted_at


def ends_at(task: TaskView) -> datetime | None:
    """When it ends at the latest, by its time limit; None: nobody knows, or it does not run."""
    limit_s = spec_of(task).time_limit_s
    if task.state != "RUNNING" or task.started_at is None or limit_s is None:
        return None
    return task.started_at + timedelta(seconds=limit_s)


def time_left(task: TaskView) -> str:
    """How long it may go on, once its limit is near; else ""."""
    from stoker.domain.limits import is_near

    moment = ends_at(task)
    if moment is None:
        return ""
    left_s = (moment - datetime.now(UTC)).total_seconds()
    if not is_near(spec_of(task).time_limit_s, left_s):
        return ""
    return words("ls.left", left=duration(max(left_s, 0), language()))


def ago(moment: datetime) -> str:
    """How long ago that was, as a length of time."""
    return duration((datetime.now(UTC) - moment).total_seconds(), language())


def between(begin: datetime | None, end: datetime | None) -> str:
    """How long something took, or has taken so far."""
    if begin is None:
        return ""
    return duration(((end or datetime.now(UTC)) - begin).total_seconds(), language())


def clock(moment: datetime) -> str:
    """A moment in the terminal's own time zone."""
    return moment.astimezone().strftime("%Y-%m-%d %H:%M:%S")


def own_account() -> str:
    """The unix account of whoever looks: in most labs also the name that the server knows."""
    named = os.environ.get("LOGNAME") or os.environ.get("USER")
    if named:
        return named
    import getpass  # takes 2 ms

    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return ""
