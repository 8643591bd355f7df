"""`stoker show`: all about one task, in words; of an array first what did not succeed."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import islice

import msgspec

from stoker.domain.dependency import parse_after
from stoker.domain.outcome import FAILED, End
from stoker.text import reason
from stoker.text.amounts import duration, memory
from stoker.wire import AttemptView, EventView, TaskDetail, TaskView

from .client import Client
from .command import command as declare
from .command import json_option
from .options import as_typed
from .reasons import told
from .say import language, words
from .screen import clean, colour, fit, pad, table, terminal_width, width
from .shown import (
    ago,
    between,
    clock,
    command_text,
    ends_at,
    placed_on,
    progress,
    spec_of,
    state,
    state_colour,
    title,
)
from .task_id import id_argument

MOST_EVENTS = 12
MOST_FAILED = 10
MOST_OPTION = 300
"""Columns of one option; values of a sweep may be many."""
COPIED = ("command", "workdir", "options")


@declare("show")
@id_argument
@json_option
def command(id: str, as_json: bool) -> None:
    with Client() as client:
        found = client.task(id)
        failed = [] if as_json else _find_failed(client, found.task)
    if as_json:
        sys.stdout.buffer.write(msgspec.json.encode(found) + b"\n")
        return
    for line in describe(found, failed):
        print(line)


def describe(found: TaskDetail, failed: Sequence[TaskView] = ()) -> Iterator[str]:
    """Everything there is to say, line by line. `failed`: elements that did, at least some."""
    task = found.task
    yield colour(words("show.title", id=task.id, title=title(task)), "bold")
    yield from _facts_lines(found)
    yield from _failed_lines(task, failed)
    if found.attempts:
        yield words("show.attempts")
        rows = [_attempt(attempt) for attempt in found.attempts]
        yield from table(rows, indent="  ", columns=terminal_width(), wrapped=True)
    if found.events:
        yield words("show.events")
        rows = [[clock(event.at), _event(event)] for event in found.events[-MOST_EVENTS:]]
        yield from table(rows, indent="  ", columns=terminal_width(), wrapped=True)


def _facts_lines(found: TaskDetail) -> Iterator[str]:
    """Sentences go on below themselves; what one may want to copy is left in one piece."""
    facts = list(_facts(found))
    size = max(width(words(f"show.{key}")) for key, _ in facts)
    columns = terminal_width()
    for number, (key, text) in enumerate(facts):
        tints = [["dim", state_colour(found.task) if number == 0 else ""]]
        row = [pad(words(f"show.{key}"), size), text]
        fitted = None if key in COPIED else columns
        yield from table([row], indent="  ", colours=tints, columns=fitted, wrapped=True)


def _find_failed(client: Client, task: TaskView) -> list[TaskView]:
    """The first elements of an array that did not succeed, by index within each outcome."""
    failed: list[TaskView] = []
    for outcome in FAILED if task.array is not None else ():
        left = MOST_FAILED - len(failed)
        if getattr(task.array, outcome) and left:
            failed += islice(client.tasks(array=task.id, outcome=outcome, page=left), left)
    return failed


def _failed_lines(task: TaskView, failed: Sequence[TaskView]) -> Iterator[str]:
    if task.array is None or not failed:
        return
    yield words("show.failed")
    rows = [[one.id, state(one), _values(one), clean(one.message or "")] for one in failed]
    yield from table(rows, indent="  ", colours=[["", state_colour(one), "", ""] for one in failed])
    left = sum(getattr(task.array, outcome) for outcome in FAILED) - len(failed)
    if left > 0:
        yield "  " + words("show.failed_more", count=left, id=task.id)
    yield "  " + words("show.retry" if task.state == "FINISHED" else "show.retry_later", id=task.id)


def _values(element: TaskView) -> str:
    from stoker.domain.sweep import said

    return clean(said(element.sweep or {}))


def _facts(found: TaskDetail) -> Iterator[tuple[str, str]]:
    task = found.task
    spec = spec_of(task)
    yield "state", _state_line(found)
    if task.array is not None:
        yield "array", progress(task.array)
    if task.sweep:
        from stoker.domain.sweep import fill_in, said

        yield "sweep", clean(said(task.sweep))
        spec = fill_in(spec, task.sweep)
    if task.message and task.outcome != "succeeded":
        yield "why", clean(task.message)
    for line in told(found.waits):
        yield "waits", line
    yield from _limit(task)
    if found.unconfirmed:
        yield "unconfirmed", words("show.unconfirmed_text", node=task.node or "?")
    yield "owner", clean(task.owner)
    if task.origin is not None:
        yield "origin", words("show.origin_text", id=task.origin)
    for text in spec.after:
        yield "after", _dependency(text)
    yield "submitted", words("show.ago", clock=clock(task.submitted_at), ago=ago(task.submitted_at))
    if task.reduced and not spec.command:
        yield "command", words("show.private", owner=clean(task.owner))
    else:
        yield "command", clean(command_text(spec))
        yield "workdir", clean(spec.workdir)
    options = [_option(words_) for words_ in as_typed(spec) if words_[0] not in ("--workdir",)]
    if options:
        yield "options", clean(" ".join(options))
    yield from _usage(found)


def _limit(task: TaskView) -> Iterator[tuple[str, str]]:
    moment = ends_at(task)
    if moment is not None:
        left = duration(max((moment - datetime.now(UTC)).total_seconds(), 0), language())
        yield "limit", words("show.limit_text", clock=clock(moment), left=left, id=task.id)


def _state_line(found: TaskDetail) -> str:
    task = found.task
    where = placed_on(task.node, task.gpu_ids) if task.node else ""
    if task.state == "FINISHED":
        took = between(task.started_at, task.finished_at)
        key = "show.finished_ran" if took else "show.finished"
        return words(key, state=state(task), took=took, where=where)
    if task.state in ("HELD", "QUEUED") or task.array is not None:
        return words("show.waiting", state=state(task), took=ago(task.submitted_at))
    since = task.started_at or (found.attempts[-1].placed_at if found.attempts else None)
    return words("show.live", state=state(task), took=between(since, None), where=where)


def _dependency(text: str) -> str:
    found = parse_after(text)
    if found is None:
        return clean(text)
    return words("show.after_text", id=str(found.key), when=found.when)


def _option(typed: list[str]) -> str:
    """As it could be typed; values of environment variables may be secrets."""
    if typed[0] == "--env":
        return f"--env {shlex.quote(typed[1].partition('=')[0])}=…"
    return fit(shlex.join(typed), MOST_OPTION)


def _usage(found: TaskDetail) -> Iterator[tuple[str, str]]:
    end = found.attempts[-1].end if found.attempts else None
    if end is None or end.cpu_s is None or end.max_rss_mib is None:
        return
    text = words("show.used_text", cpu=f"{end.cpu_s:.1f}", memory=memory(end.max_rss_mib))
    yield "used", text


def _attempt(attempt: AttemptView) -> list[str]:
    cards = "GPU " + ",".join(map(str, attempt.gpu_ids)) if attempt.gpu_ids else "-"
    took = between(attempt.started_at, attempt.ended_at)
    return [
        str(attempt.ordinal),
        clean(attempt.node),
        cards,
        clock(attempt.placed_at),
        took or "-",
        _how(attempt.end, attempt),
    ]


def _how(end: End | None, attempt: AttemptView) -> str:
    if end is None:
        return words("show.never_ran" if attempt.ended_at else "show.not_over")
    values = {"detail": end.detail, "exit_code": end.exit_code, "signal": end.signal}
    return clean(reason(end.reason, values, language()))


def _event(event: EventView) -> str:
    values = event.values
    by = str(values.get("by") or "")
    allocation = values.get("allocation")
    node = str(allocation.get("node", "?")) if isinstance(allocation, dict) else "?"
    key = f"event.{event.event}.by" if by else f"event.{event.event}"
    limit_s = values.get("time_limit_s")
    if event.event == "LimitExtended" and limit_s is None:
        key = "event.LimitExtended.none"
    try:
        said = words(key, by=by, node=node, limit=limit_s)
    except KeyError:
        return clean(event.event)
    again = values.get("not_before")
    if isinstance(again, str):
        said += words("event.again", at=clock(datetime.fromisoformat(again)))
    return said
