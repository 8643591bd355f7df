"""What a notice says: in the person's language, plain text, nothing in it that a task could abuse.

Names, reasons and output come from tasks and may hold anything: line ends in a subject would be
headers of a mail, escape sequences would act on a terminal. So all of it is made harmless here.
Commands and environments are not told at all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Literal

from stoker import text
from stoker.domain.key import TaskKey
from stoker.domain.lifecycle import Task
from stoker.domain.notice import NoticeKind
from stoker.notices.base import Message

from .tell import Told

TAIL_LINES = 20
TAIL_BYTES = 4096
MOST_LINE = 1000
MOST_NAMED = 10

_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_].*?(?:\x1b\\|\x07|$)|[ -/]*[0-~]?)", re.S)
_HIDDEN = re.compile(r"[\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
"""Invisible, or they turn the direction of what follows."""

Mood = Literal["info", "success", "warning", "failure"]


def about_task(told: Told, kind: NoticeKind, tail: bytes, language: str) -> Message:
    """One task, and what happened to it. `kind`: finished and failed are both `ended`."""
    task, values = told.task, dict(told.values)
    title = title_of(task, language)
    known = _values(told, kind, title, language) | values
    lines = [text.phrase(f"notice.{kind}", language, **known)]
    lines += _facts(task, known, language)
    last = tail_lines(tail)
    return Message(
        subject=_subject(text.phrase(f"notice.{kind}.subject", language, **known)),
        lines=tuple(map(line, lines)),
        heading=text.phrase("notice.tail", language) if last else "",
        tail=tuple(last),
        closing=text.phrase(f"notice.{kind}.look", language, id=str(task.key)),
        mood=_mood(task, kind),
        values=_for_programs(task, kind),
    )


def about_elements(
    array: int, owner: str, kind: NoticeKind, keys: Sequence[TaskKey], language: str
) -> Message:
    """The same happened to several elements of an array."""
    some = ", ".join(map(str, keys[:MOST_NAMED])) + (", …" if len(keys) > MOST_NAMED else "")
    known = {"id": array, "count": len(keys), "elements": some}
    said = text.phrase(f"notice.elements.{kind}", language, **known)
    return Message(
        subject=_subject(said),
        lines=(line(said), line(text.phrase("notice.elements", language, **known))),
        closing=text.phrase(f"notice.{kind}.look", language, id=str(keys[0])),
        mood="failure" if kind == "failed" else "warning",
        values={"kind": kind, "task": str(array), "owner": owner},
    )


def about_more(counts: Mapping[str, int], language: str) -> Message:
    """What was not told one by one, because it was too much."""
    kinds = ", ".join(
        f"{text.phrase(f'notice.kind.{kind}', language)} {count}" for kind, count in counts.items()
    )
    known = {"count": sum(counts.values()), "kinds": kinds}
    return Message(
        subject=_subject(text.phrase("notice.more.subject", language, **known)),
        lines=(line(text.phrase("notice.more", language, **known)),),
        closing=text.phrase("notice.more.look", language),
        values={"kind": "more", "count": str(known["count"])},
    )


def about_test(person: str, channel: str, language: str) -> Message:
    """So that somebody sees whether a channel works."""
    known = {"person": person, "channel": channel}
    return Message(
        subject=_subject(text.phrase("notice.test.subject", language, **known)),
        lines=(line(text.phrase("notice.test", language, **known)),),
        values={"kind": "test", "owner": person},
    )


def title_of(task: Task, language: str) -> str:
    """`12` or `12 (train)`."""
    name = line(task.spec.name)[:100]
    if not name:
        return str(task.key)
    return text.phrase("notice.named", language, id=str(task.key), name=name)


def tail_lines(data: bytes) -> list[str]:
    """The last lines of an output, as plain text: what a progress bar has overwritten is gone."""
    shown = _ESCAPE.sub("", data.decode(errors="replace"))
    lines = [one.rstrip("\r").rpartition("\r")[2] for one in shown.split("\n")]
    kept = [harmless for one in lines if (harmless := line(one, keep_indent=True)).strip()]
    found: list[str] = []
    room = TAIL_BYTES
    for one in reversed(kept[-TAIL_LINES:]):
        room -= len(one.encode()) + 1
        if room < 0:
            break
        found.insert(0, one)
    return found


def line(value: str, *, keep_indent: bool = False) -> str:
    """One line of printable characters."""
    shown = _HIDDEN.sub("", _ESCAPE.sub("", value)).expandtabs(4)
    plain = "".join(c if c.isprintable() else " " for c in shown)[:MOST_LINE]
    return plain.rstrip() if keep_indent else " ".join(plain.split())


def _subject(said: str) -> str:
    return f"[Stoker] {line(said)}"[:200]


def _values(told: Told, kind: NoticeKind, title: str, language: str) -> dict[str, object]:
    task, end = told.task, told.task.end
    known: dict[str, object] = {"title": title, "node": line(task.node or "-")}
    if end is not None:
        given: dict[str, object] = {
            "detail": end.detail, "exit_code": end.exit_code, "signal": end.signal,
            "by": task.stopped_by, "limit": task.spec.time_limit_s,
        }  # fmt: skip
        known["why"] = line(text.reason(end.reason, given, language))
        known["how"] = text.state_word("FINISHED", end.outcome, language)
    return known


def _facts(task: Task, known: Mapping[str, object], language: str) -> list[str]:
    lines = []
    if task.node:
        gpus = ", ".join(map(str, task.gpu_ids))
        key = "notice.place" if gpus else "notice.place_no_gpus"
        lines.append(text.phrase(key, language, node=known["node"], gpus=gpus))
    ran = _ran(task)
    if ran is not None:
        lines.append(text.phrase("notice.ran", language, ran=ran))
    if task.counts:
        lines.append(
            text.phrase(
                "notice.counts",
                language,
                counts=", ".join(
                    f"{text.state_word('FINISHED', outcome, language)} {count}"
                    for outcome, count in sorted(task.counts.items())
                ),
            )
        )
    return lines


def _ran(task: Task) -> float | None:
    if task.end is None:
        return None
    if task.end.ran_s is not None:
        return task.end.ran_s
    begun: datetime | None = task.started_at
    if begun is None or task.finished_at is None:
        return None
    return max(0.0, (task.finished_at - begun).total_seconds())


def _mood(task: Task, kind: NoticeKind) -> Mood:
    if kind in ("waiting", "limit"):
        return "warning"
    if task.end is None:
        return "info"
    return "success" if task.end.outcome == "succeeded" else "failure"


def _for_programs(task: Task, kind: NoticeKind) -> dict[str, str]:
    known = {"kind": kind, "task": str(task.key), "owner": task.owner, "name": line(task.spec.name)}
    if task.end is not None:
        known |= {"outcome": task.end.outcome, "reason": task.end.reason}
    return known | ({"node": line(task.node)} if task.node else {})
