"""What notices say: plain, in both languages, whatever a task calls itself or prints."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from stoker.domain.key import TaskKey
from stoker.domain.lifecycle import State, Task
from stoker.domain.notice import NOTICE_KINDS, NoticeKind
from stoker.domain.outcome import End
from stoker.flow.notice_text import about_elements, about_more, about_task, tail_lines
from stoker.flow.tell import Told
from stoker.notices.base import Message
from tests.helpers.builders import a_spec

NOW = datetime(2030, 1, 2, tzinfo=UTC)
VALUES: dict[str, object] = {"waited_s": 7200, "left_s": 3600, "limit_s": 86400, "ends_at": NOW}


def told(name: str = "train", end: End | None = None) -> Told:
    task = Task(
        id=12, element=-1, owner="ana", spec=a_spec(name=name, env={"KEY": "hidden-value"}),
        state=State.FINISHED if end else State.RUNNING, version=3, position=1, submitted_at=NOW,
        node="gpu1", gpu_ids=(0, 3), end=end,
    )  # fmt: skip
    return Told(kind="ended", task=task, at=NOW, values=VALUES)


END = End(outcome="failed", reason="gpu_memory", exit_code=1, ran_s=7_500.0)


@pytest.mark.parametrize("kind", NOTICE_KINDS)
@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_kind_has_all_its_words(kind: NoticeKind, language: str) -> None:
    end = END if kind in ("finished", "failed") else None

    message = about_task(told(end=end), kind, b"line\n", language)

    whole = message.subject + message.body()
    assert "?" not in whole
    assert "{" not in whole
    assert "12" in message.subject
    assert "train" in message.subject
    assert "stoker " in message.closing
    assert "hidden-value" not in whole + str(message.values)


def test_a_failure_says_where_how_long_and_why() -> None:
    body = about_task(told(end=END), "failed", b"a\nb\n", "en").body()

    assert "Node gpu1, GPU 0, 3" in body
    assert "Ran for 2 h 5 min" in body
    assert "memory" in body
    assert "a\nb" in body


@pytest.mark.parametrize("language", ["en", "zh"])
def test_digests(language: str) -> None:
    keys = [TaskKey(7, n) for n in range(12)]
    for kind in ("failed", "limit", "waiting"):
        body = about_elements(7, "ana", kind, keys, language).body()
        assert "7_0, 7_1" in body
        assert "7_11" not in body
    assert "120" in about_more({"finished": 100, "failed": 20}, language).subject


@given(name=st.text(max_size=60), node=st.text(max_size=20), out=st.binary(max_size=300))
def test_nothing_that_a_task_says_breaks_out_of_its_line(name: str, node: str, out: bytes) -> None:
    given_ = told(name[:200], END)
    given_ = structs.replace(given_, task=structs.replace(given_.task, node=node))

    message = about_task(given_, "failed", out, "en")

    for line in (message.subject, *message.lines, *message.tail, *message.values.values()):
        assert line.isprintable() or not line, repr(line)
        assert "\n" not in line


def test_the_tail_is_short_and_what_was_overwritten_is_gone() -> None:
    bar = b"".join(b"\r %d%%" % n for n in range(100))
    data = b"x\n" * 40 + bar + b"\n\x1b]0;title\x07\x1b[1;31mError\x1b[0m: \x00no\n   indented\n\n"

    lines = tail_lines(data)

    assert lines[-3:] == [" 99%", "Error:  no", "   indented"]
    assert len(lines) == 20
    assert (
        sum(len(one.encode()) + 1 for one in tail_lines(("错" * 900 + "\n").encode() * 20)) <= 4096
    )
    assert tail_lines(b"") == []
    assert tail_lines(b"\xff\xfe\n") == ["��"]


def test_a_body_fits_where_there_is_little_room() -> None:
    message = Message(
        subject="s", lines=("头" * 100,), heading="h", tail=("t" * 50,) * 9, closing="c"
    )

    for room in (40, 310, 400, 10_000):
        assert len(message.body(room).encode()) <= room
    assert message.body(400).endswith("c")
