"""Judges a history: does it keep the promises R1 to R5 and R7 of RELIABILITY 3?

Pure and offline: the same history always gets the same judgement, nothing is asked of a process, a
clock or a file. Every violation is one sentence that names the task or attempt. A rule looks only
at what was really seen: it never guesses, and it has no tolerance to be turned up.
(R6 is what `identity.py` is tested for; R8 and R9 are the bounded waits of the harness.)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from .history import AttemptRow, EndRow, History, Line


def check(history: History) -> list[str]:
    """Every broken promise; empty = kept."""
    case = _Case(history)
    return [violation for rule in RULES for violation in rule(case)]


@dataclass(frozen=True)
class _Life:
    """From the first to the last sign of life of an attempt, all its processes together."""

    attempt: str
    task: str
    first_ns: int
    last_ns: int
    gpus: frozenset[int]


class _Case:
    """A history with its indexes."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.tasks = {task.id: task for task in history.tasks}
        self.attempts = {attempt.id: attempt for attempt in history.attempts}
        self.lines: dict[str, list[Line]] = defaultdict(list)
        for line in history.lines:
            self.lines[line.attempt].append(line)
        self.attempts_of: dict[str, list[AttemptRow]] = defaultdict(list)
        for attempt in sorted(history.attempts, key=lambda one: one.ordinal):
            self.attempts_of[attempt.task].append(attempt)
        self.kinds_of: dict[str, list[str]] = defaultdict(list)
        for event in sorted(history.events, key=lambda one: one.seq):
            self.kinds_of[event.task].append(event.kind)
        self.lives = [_life(lines) for lines in self.lives_by_boot() if lines]

    def lives_by_boot(self) -> Iterator[list[Line]]:
        """Times of two boots cannot be compared: each boot of an attempt is a life of its own."""
        for lines in self.lines.values():
            for boot in {line.boot for line in lines}:
                yield [line for line in lines if line.boot == boot]

    def main(self, attempt: str, what: str) -> list[Line]:
        return [one for one in self.lines[attempt] if one.who == "main" and one.what == what]


# ---- the rules


def acknowledged_submits_are_there(case: _Case) -> Iterator[str]:
    """R1."""
    for answer in case.history.answers:
        if answer.act != "submit":
            continue
        task = case.tasks.get(answer.task)
        if task is None:
            yield f"task {answer.task} was acknowledged and is not in the records"
        elif answer.name and task.name != answer.name:
            yield f"task {answer.task} was acknowledged as {answer.name!r} and is {task.name!r}"


def nothing_is_stuck(case: _Case) -> Iterator[str]:
    """R8: a history is judged when everything has had its time."""
    for task in case.history.tasks:
        if task.state != "FINISHED":
            yield f"task {task.id} is still {task.state}"
            continue
        kinds = case.kinds_of[task.id]
        if kinds.count("Ended") != 1 or kinds[-1] != "Ended":
            yield f"task {task.id} is finished but its events are {' '.join(kinds)}"
        for attempt in case.attempts_of[task.id]:
            if attempt.ended_ns is None:
                yield f"task {task.id} is finished but attempt {attempt.id} has no end"
        if task.end is None:
            yield f"task {task.id} is finished without saying how"
        elif not case.attempts_of[task.id] and task.end.outcome != "cancelled":
            yield f"task {task.id} is {task.end.outcome} without ever having been tried"


def only_intents_run(case: _Case) -> Iterator[str]:
    """Nothing is launched before its intent is committed, nor as another one."""
    for id, lines in case.lines.items():
        attempt = case.attempts.get(id)
        if attempt is None:
            yield f"attempt {id} of task {lines[0].task} ran and is not in the records"
            continue
        if any(line.task != attempt.task for line in lines):
            yield f"attempt {id} belongs to task {attempt.task} and ran as {lines[0].task}"
        if any(line.gpus != attempt.gpus for line in lines):
            yield f"attempt {id} was given GPUs {attempt.gpus} and ran on {lines[0].gpus}"
        if case.history.is_server_clock_true:
            early = min(line.wall_ns for line in lines)
            if early < attempt.placed_ns:
                yield f"attempt {id} began before there was an intent to run it"


def attempts_run_once(case: _Case) -> Iterator[str]:
    """R3."""
    for id in case.lines:
        starts = case.main(id, "start")
        if len(starts) > 1:
            pids = ", ".join(str(line.pid) for line in starts)
            yield f"attempt {id} of task {starts[0].task} ran {len(starts)} times (pids {pids})"


def one_copy_at_a_time(case: _Case) -> Iterator[str]:
    """R2."""
    by_task: dict[str, list[_Life]] = defaultdict(list)
    for life in case.lives:
        by_task[life.task].append(life)
    for task, lives in by_task.items():
        for one, other in _overlaps(lives):
            yield f"task {task} had two live copies: attempts {one.attempt} and {other.attempt}"


def gpus_are_held_alone(case: _Case) -> Iterator[str]:
    """R5."""
    by_gpu: dict[int, list[_Life]] = defaultdict(list)
    for life in case.lives:
        for gpu in life.gpus:
            by_gpu[gpu].append(life)
    for gpu, lives in sorted(by_gpu.items()):
        for one, other in _overlaps(lives):
            if one.task != other.task:
                yield f"GPU {gpu} was held by tasks {one.task} and {other.task} at the same time"


def recorded_ends_are_real(case: _Case) -> Iterator[str]:
    """R4, but for `lost`."""
    for attempt in case.history.attempts:
        if attempt.ended_ns is not None:
            yield from _judge_end(case, attempt)
    for event in case.history.events:
        if event.kind == "Ended":
            task, last = case.tasks[event.task], case.attempts.get(event.attempt or "")
            if last is not None and last.end not in (task.end, None):
                yield f"task {task.id} says {task.end} and its attempt says {last.end}"
            if event.attempt is None and task.end is not None and task.end.outcome != "cancelled":
                yield f"task {task.id} became {task.end.outcome} while it waited"


def lost_only_where_unknown(case: _Case) -> Iterator[str]:
    """R4: `lost` needs a death that explains it, and no exit line."""
    history = case.history
    unexplained = []
    for attempt in history.attempts:
        if attempt.end is None or attempt.end.outcome != "lost":
            continue
        if attempt.id in history.exits:
            yield f"attempt {attempt.id} is lost, but its node recorded {history.exits[attempt.id]}"
        reason = attempt.end.reason
        if reason == "spool_gone" and attempt.spool not in history.deleted_spools:
            yield f"attempt {attempt.id} is lost (spool_gone), and nobody deleted its spool"
        elif reason == "rebooted" and attempt.boot not in history.ended_boots:
            yield f"attempt {attempt.id} is lost (rebooted), and its node did not"
        elif reason == "supervisor_died" and attempt.id not in history.killed_supervisors:
            unexplained.append(attempt.id)
    if len(unexplained) > history.unnamed_supervisor_kills:
        yield (
            f"{len(unexplained)} attempts are lost (supervisor_died) with"
            f" {history.unnamed_supervisor_kills} such deaths: {', '.join(unexplained)}"
        )


def reruns_have_a_reason(case: _Case) -> Iterator[str]:
    """A second attempt needs proof that the first never ran, or a task that asked for it."""
    for id, attempts in case.attempts_of.items():
        task = case.tasks.get(id)
        for attempt in attempts[:-1]:
            if attempt.end is None:
                continue  # never ran: `recorded_ends_are_real` looks whether that is true
            if attempt.end.outcome != "lost":
                yield f"task {id} ran again after attempt {attempt.id} was {attempt.end.outcome}"
            elif task is not None and not task.requeue_on_loss:
                yield f"task {id} was lost and ran again, and had not asked for it"


def nothing_lives_after_its_end(case: _Case) -> Iterator[str]:
    """R5, R7: cards are free and people are told only when nothing is left."""
    if case.history.is_server_clock_true:
        for attempt in case.history.attempts:
            ended_ns = attempt.ended_ns
            late = [one for one in case.lines[attempt.id] if ended_ns and one.wall_ns > ended_ns]
            if late:
                yield f"attempt {attempt.id} still lived after its end was recorded ({late[0].what})"
    shown: dict[str, int] = {}
    for one in case.history.answers:
        if one.act == "finished":
            shown.setdefault(one.task, one.ns)
    for life in case.lives:
        if life.last_ns > shown.get(life.task, life.last_ns):
            yield f"task {life.task} still lived after it was shown as finished"


def cancelled_stays_cancelled(case: _Case) -> Iterator[str]:
    """R7."""
    for answer in case.history.answers:
        task = case.tasks.get(answer.task)
        if answer.act != "cancel" or task is None:
            continue
        kinds = case.kinds_of[task.id]
        asked = kinds.index("StopRequested") if "StopRequested" in kinds else None
        if asked is None and (task.end is None or task.end.outcome != "cancelled"):
            yield f"the cancel of task {task.id} was acknowledged and is not in the records"
        if asked is not None and "Placed" in kinds[asked:]:
            yield f"task {task.id} was placed again after it was cancelled"
        if task.end is not None and task.end.outcome == "lost":
            yield f"task {task.id} was cancelled and is recorded as lost"
        came_back = [
            life for life in case.lives if life.task == task.id and life.first_ns > answer.ns
        ]
        if came_back and asked is None:
            yield f"task {task.id} began after it was cancelled while it waited"


Rule = Callable[[_Case], Iterator[str]]
RULES: tuple[Rule, ...] = (
    acknowledged_submits_are_there,
    nothing_is_stuck,
    only_intents_run,
    attempts_run_once,
    one_copy_at_a_time,
    gpus_are_held_alone,
    recorded_ends_are_real,
    lost_only_where_unknown,
    reruns_have_a_reason,
    nothing_lives_after_its_end,
    cancelled_stays_cancelled,
)


_OUTCOMES = {
    "exit": ("succeeded", "failed"),
    "refused": ("failed",),
    "limit": ("timed_out",),
    "cancel": ("cancelled",),
    "requeue": ("cancelled",),
    "revoked": ("cancelled",),
}


def _judge_end(case: _Case, attempt: AttemptRow) -> Iterator[str]:
    starts, ends = case.main(attempt.id, "start"), case.main(attempt.id, "end")
    end, name = attempt.end, f"attempt {attempt.id} of task {attempt.task}"
    if end is None:
        if starts:
            yield f"{name} is recorded as never having run, and it ran"
        return
    if not starts:
        # A signal alone may be our own stop, before it could say its first word.
        if end.exit_code is not None or (end.outcome == "failed" and end.signal is not None):
            yield f"{name} is recorded as ended with {_shown(end)}, and it never ran"
    elif end.outcome == "failed" and end.exit_code is None and end.signal is None:
        yield f"{name} is recorded as {end.reason} before it began, and it ran"
    if end.outcome in ("succeeded", "failed") and starts and not ends and end.signal is None:
        yield f"{name} is recorded as ended by itself with {_shown(end)}, and it did not end so"
    for line in ends:
        if not _agrees(line, end):
            yield f"{name} ended with {line.code} and is recorded as {_shown(end)}"
    yield from _judge_against_node(case, attempt, end)


def _judge_against_node(case: _Case, attempt: AttemptRow, end: EndRow) -> Iterator[str]:
    exit, name = case.history.exits.get(attempt.id), f"attempt {attempt.id} of task {attempt.task}"
    if exit is not None and end.outcome != "lost":
        recorded = (end.outcome, end.exit_code, end.signal)
        if recorded not in [(outcome, exit.code, exit.signal) for outcome in _OUTCOMES[exit.cause]]:
            yield f"{name}: its node recorded {exit} and the database {_shown(end)}"


def _agrees(line: Line, end: EndRow) -> bool:
    """Whether a witness's last words fit what is recorded."""
    if end.outcome == "lost":
        return True  # nobody could read its code; `lost_only_where_unknown` asks why
    assert line.code is not None
    real = (None, -line.code) if line.code < 0 else (line.code, None)
    if end.outcome in ("succeeded", "failed"):
        return (end.exit_code, end.signal) == real
    # Stopped in the moment between its last words and its exit.
    return end.exit_code is None or (end.exit_code, end.signal) == real


def _shown(end: EndRow) -> str:
    how = f"code {end.exit_code}" if end.signal is None else f"signal {end.signal}"
    return f"{end.outcome} ({how})"


def _life(lines: list[Line]) -> _Life:
    return _Life(
        attempt=lines[0].attempt,
        task=lines[0].task,
        first_ns=min(line.ns for line in lines),
        last_ns=max(line.ns for line in lines),
        gpus=frozenset(gpu for line in lines for gpu in line.gpus),
    )


def _overlaps(lives: list[_Life]) -> Iterator[tuple[_Life, _Life]]:
    """Neighbours in time that overlap. (If any two do, so do two neighbours of this kind.)"""
    ordered = sorted(lives, key=lambda life: life.first_ns)
    longest = ordered[0] if ordered else None
    for _, life in pairwise(ordered):
        assert longest is not None
        if longest.attempt != life.attempt and life.first_ns <= longest.last_ns:
            yield longest, life
        if life.last_ns > longest.last_ns:
            longest = life
