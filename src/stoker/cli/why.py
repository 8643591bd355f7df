"""`stoker why`: why a task waits, who holds what it needs, and what would start it now.

The first sentence is the answer; the rest is for whoever wants to do something about it. The same
lines say what would become of a task that was not handed over yet (`submit --dry-run`).
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from datetime import UTC, datetime

import msgspec

from stoker.domain.task import fields
from stoker.text.amounts import duration
from stoker.wire import EstimateView, HolderView, PlaceView, SuggestionView, TaskView, WhyView

from .client import Client
from .command import command as declare
from .command import json_option
from .options import flag_of, words_of
from .reasons import sentence, told
from .say import language, words
from .screen import clean, table, terminal_width, width, wrap
from .shown import between, clock, placed_on, progress, state, title
from .task_id import id_argument

MOST_HOLDERS = 10


@declare("why")
@id_argument
@json_option
def command(id: str, as_json: bool) -> None:
    with Client() as client:
        client.says_pause = False
        found = client.why(id)
        if as_json:
            sys.stdout.buffer.write(msgspec.json.encode(found) + b"\n")
            return
        task = client.task(id, waits=False).task
    for line in describe(task, found):
        print(line)


def describe(task: TaskView, found: WhyView) -> Iterator[str]:
    """The answer, then everything behind it."""
    known = {"id": task.id, "title": title(task)}
    if task.state == "FINISHED":
        yield words("why.over", **known, state=state(task))
    elif task.array is not None and not task.array.waiting:
        yield words("why.array", **known, progress=progress(task.array))
    elif task.state not in ("HELD", "QUEUED"):
        where = placed_on(task.node, task.gpu_ids)
        took = between(task.started_at or task.submitted_at, None)
        yield words("why.live", **known, state=state(task), where=where, took=took)
    else:
        yield from wrap(words("why.waits", **known, why=_main(found)), terminal_width())
        yield from details(found, task.id)


def describe_preview(found: WhyView) -> Iterator[str]:
    """What would become of it."""
    if found.starts:
        where = "; ".join(placed_on(part.node, part.gpu_ids) for part in found.starts)
        yield words("preview.starts", where=where)
        return
    yield from wrap(words("preview.waits", why=_main(found)), terminal_width())
    yield from details(found, "")


def details(found: WhyView, id: str) -> Iterator[str]:
    """Reasons, holders, place, estimate, and what would start it now. `id` is "" for a preview."""
    rows = [*_labelled("reasons", _all_reasons(found)), *_labelled("holders", _holders(found))]
    if found.place is not None:
        rows += _labelled("place", [_place(found.place)])
    if found.estimate is not None:
        rows += _labelled("start", [_estimate(found.estimate)])
    rows += _labelled("now", [line for one in found.suggestions for line in _suggestion(one, id)])
    yield from table(rows, indent="  ", columns=terminal_width(), wrapped=True)


def _labelled(name: str, lines: list[str]) -> list[list[str]]:
    return [[words(f"why.{name}") if n == 0 else "", line] for n, line in enumerate(lines)]


def _main(found: WhyView) -> str:
    """One sentence, whatever the number of reasons and nodes."""
    lines = told(found.reasons)
    if not lines:
        return words("why.soon")
    only_nodes = all("node" in reason.values for reason in found.reasons)
    return words("why.no_room") if only_nodes and len(lines) > 1 else lines[0]


def _all_reasons(found: WhyView) -> list[str]:
    lines = told(found.reasons)
    return lines if len(lines) > 1 else []


def _holders(found: WhyView) -> list[str]:
    lines = [_holder(holder) for holder in found.holders[:MOST_HOLDERS]]
    left = len(found.holders) - len(lines)
    return [*lines, words("list_more", count=left)] if left else lines


def _holder(holder: HolderView) -> str:
    known = {
        "task": holder.task,
        "owner": holder.owner,
        "where": placed_on(holder.node, holder.gpu_ids),
    }
    key = "why.holder" if holder.task else "why.holder_unnamed"
    if holder.ends is None:
        return words(key, **known)
    return words(f"{key}_until", **known, until=clock(holder.ends))


def _place(place: PlaceView) -> str:
    if place.ahead == 0 and not place.more:
        return words("why.first", waiting=place.waiting)
    key = "why.behind_more" if place.more else "why.behind"
    return words(key, ahead=place.ahead, waiting=place.waiting)


def _estimate(estimate: EstimateView) -> str:
    basis = sentence(estimate.basis)
    if estimate.at is None:
        return basis
    left = max((estimate.at - datetime.now(UTC)).total_seconds(), 0)
    when = words("why.at", clock=clock(estimate.at), left=duration(left, language()))
    return words("why.at_because", when=when, basis=basis)


def _suggestion(one: SuggestionView, id: str) -> list[str]:
    """What it is and what to type, which is never broken in two."""
    typed = _typed(one, id)
    together = f"{sentence(one)}  {typed}".rstrip()
    columns = terminal_width()
    if columns is None or not typed or width(together) + width(words("why.now")) + 4 <= columns:
        return [together]
    return [sentence(one), typed]


def _typed(one: SuggestionView, id: str) -> str:
    """What to type for it; for a task that is not there yet only the options."""
    if one.code in ("try_release", "try_anyway"):
        anyway = " --anyway" if one.code == "try_anyway" else ""
        return f"stoker release{anyway} {id}" if id else ""
    options: list[str] = []
    for field in fields():
        if field.name not in one.options:
            continue
        value = one.options[field.name]
        value = tuple(value) if isinstance(value, list) else value
        if value is None or value == field.default:
            options += ["--unset", flag_of(field.name)[2:]] if id else []
        else:
            options += [word for group in words_of(field, value) for word in group]
    typed = clean(shlex.join(options))
    return f"stoker edit {id} {typed}" if id and typed else typed
