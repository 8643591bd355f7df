"""What a person sees of tasks and nodes, whatever the tasks are called."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from stoker.cli import ls, nodes, show
from stoker.cli.screen import width
from stoker.domain.node import Gpu
from stoker.domain.outcome import End
from stoker.domain.task import TaskSpec
from stoker.wire import (
    ArrayCounts,
    AttemptView,
    CardView,
    EventView,
    NodeView,
    TaskDetail,
    TaskView,
    WaitReason,
)

NOW = datetime.now(UTC)
HOSTILE = "\x1b]0;owned\x07\x1b[2J\u202eevil\nsecond line\x9b31m"


def view(**changes: Any) -> TaskView:
    base = TaskView(
        id="17", owner="ana", state="RUNNING", version=3, submitted_at=NOW - timedelta(minutes=5),
        attempts=1, started_at=NOW - timedelta(minutes=3), finished_at=None, node="node-a",
        gpu_ids=(0, 1), outcome=None, reason=None, message=None, exit_code=None, signal=None,
        stopped_by=None, spec=TaskSpec(command=("python", "train.py"), name="训练", gpus=2),
    )  # fmt: skip
    return msgspec.structs.replace(base, **changes)


def detail(task: TaskView, **changes: Any) -> TaskDetail:
    base = TaskDetail(task=task, waits=(), attempts=(), events=(), unconfirmed=False)
    return msgspec.structs.replace(base, **changes)


def test_a_list_of_tasks() -> None:
    waiting = view(id="18", state="QUEUED", started_at=None, node=None, gpu_ids=())
    failed = view(
        id="9", state="FINISHED", outcome="failed", message="It ended with exit code 3.",
        finished_at=NOW - timedelta(hours=2), spec=TaskSpec(command=("a b", "c")), gpu_ids=(),
    )  # fmt: skip
    lines = ls.lines([view(), waiting, failed], "ana")
    assert lines[0].split() == ["ID", "STATE", "SINCE", "GPU", "NODE", "TASK"]
    assert lines[1].split(maxsplit=6) == ["17", "running", "3", "min", "0,1", "node-a", "训练"]
    assert lines[2].split(maxsplit=6) == ["18", "queued", "5", "min", "(2)", "-", "训练"]
    assert lines[3].endswith("'a b' c: It ended with exit code 3.")
    assert "2 h" in lines[3]
    assert len({width(line.partition("训练")[0]) for line in lines[1:3]}) == 1
    of_another = ls.lines([view()], "root")
    assert of_another[1].split()[:2] == ["17", "ana"], "an admin reads whose it is"


def test_a_task_in_words() -> None:
    spec = TaskSpec(
        command="python a.py", gpus=2, time_limit_s=7200, env={"TOKEN": "secret"}, workdir="/data"
    )
    end = End(outcome="failed", reason="killed_by_signal", detail="SIGKILL", signal=9)
    attempt = AttemptView(
        id="a", ordinal=1, node="node-a", gpu_ids=(0, 1), placed_at=NOW, started_at=NOW,
        ended_at=NOW + timedelta(seconds=90), end=end,
    )  # fmt: skip
    events = (
        EventView(seq=1, task="17", event="Submitted", at=NOW, values={}),
        EventView(seq=2, task="17", event="Placed", at=NOW,
                  values={"allocation": {"node": "node-a"}}),
        EventView(seq=3, task="17", event="StopRequested", at=NOW, values={"by": "ana"}),
        EventView(seq=4, task="17", event="Invented", at=NOW, values={}),
    )  # fmt: skip
    task = view(
        state="FINISHED", outcome="failed", message="It was killed.", finished_at=NOW, spec=spec
    )
    text = "\n".join(show.describe(detail(task, attempts=(attempt,), events=events)))
    for part in (
        "Task 17: python a.py", "failed after 3 min on node-a, GPU 0, 1", "It was killed.",
        "/data", "--gpus 2", "--time-limit 2h", "--env TOKEN=…", "often the machine ran out",
        "placed on node-a", "asked to stop by ana", "Invented", "1 min",
    ):  # fmt: skip
        assert part in text, part
    assert "secret" not in text


def test_why_a_task_waits_and_what_is_not_known() -> None:
    task = view(state="QUEUED", started_at=None)
    waits = (WaitReason(code="gpus_busy", message="Needs 2 GPUs."),)
    text = "\n".join(show.describe(detail(task, waits=waits)))
    assert "queued for 5 min" in text
    assert "Needs 2 GPUs." in text
    assert "out of reach" in "\n".join(show.describe(detail(view(), unconfirmed=True)))


@pytest.mark.parametrize("field", ["name", "command", "description", "workdir", "stdout"])
def test_no_text_of_a_task_reaches_the_terminal_as_it_is(field: str) -> None:
    values: dict[str, Any] = {"command": "x", field: HOSTILE}
    task = view(spec=TaskSpec(**values), owner=HOSTILE, node=HOSTILE, message=HOSTILE)
    found = detail(task, waits=(WaitReason(code="x", message=HOSTILE),), unconfirmed=True)
    for line in [*ls.lines([task], "ana"), *show.describe(found)]:
        assert line.isprintable() or "训" in line, line


def test_an_array_is_one_line_that_says_how_far_it_is() -> None:
    counts = ArrayCounts(size=10, waiting=2, live=4, succeeded=1, failed=2, lost=1)
    array = view(state="QUEUED", started_at=None, node=None, gpu_ids=(), array=counts)
    assert ls.lines([array], "ana")[1].endswith("[4/10 done, 4 running, 2 failed, 1 lost] 训练")
    text = "\n".join(show.describe(detail(array)))
    assert "4/10 done, 4 running, 2 failed, 1 lost" in text
    assert "queued for 5 min" in text


def test_where_a_task_comes_from_and_what_it_waits_for() -> None:
    spec = TaskSpec(command="x", after=("12:ok", "13", "17_3:notok", "odd"))
    task = view(state="QUEUED", started_at=None, origin="9", spec=spec)
    text = "\n".join(show.describe(detail(task)))
    for part in ("task 9", "task 12 to succeed", "task 13 to end", "task 17_3 to fail", "odd"):
        assert part in text, part


def test_when_it_is_tried_again() -> None:
    values = {"attempt": "a", "not_before": NOW.isoformat()}
    event = EventView(seq=2, task="17", event="Requeued", at=NOW, values=values)
    text = "\n".join(show.describe(detail(view(state="QUEUED"), events=(event,))))
    local = NOW.astimezone().strftime("%Y-%m-%d %H:%M:%S")
    assert f"back in the line; tries again at {local}" in text


def card(**changes: Any) -> CardView:
    base = CardView(
        gpu=Gpu(0, "GPU-1", "NVIDIA A100", 40960), task="17", memory_used_mib=1024, utilisation=97,
        temperature_c=60, power_w=300, foreign=("bob:123:python",),
    )  # fmt: skip
    return msgspec.structs.replace(base, **changes)


def node(**changes: Any) -> NodeView:
    base = NodeView(
        name="node-a", up=True, since=NOW - timedelta(hours=3), why="", cpus=16, cpus_held=2,
        memory_mib=65536, memory_held_mib=8192, memory_available_mib=50000, load1=1.25,
        disk_free_mib=102400, limits=("cpus", "memory"), gpu_error="", cards=(card(),),
    )  # fmt: skip
    return msgspec.structs.replace(base, **changes)


def test_a_node_and_its_cards() -> None:
    text = "\n".join(nodes.describe(node()))
    for part in (
        "node-a  up for 3 h", "2 of 16 CPU cores", "8 GiB of 64 GiB", "100 GiB of disk free",
        "NVIDIA A100", "17", "1 GiB / 40 GiB", "97 %", "60 °C", "bob:123:python",
    ):  # fmt: skip
        assert part in text, part
    assert "simulated" not in text.lower()
    assert "Not enforced" not in text


def test_cards_of_several_and_cards_that_are_kept() -> None:
    cards = (
        card(tasks=("17", "18_2")),
        card(gpu=Gpu(1, "GPU-2", "NVIDIA A100", 40960), task=None, kept_for="40", kept_since=NOW),
        card(gpu=Gpu(2, "GPU-3", "NVIDIA A100", 40960), task=None, kept_for="40", kept_since=NOW),
        card(gpu=Gpu(3, "GPU-4", "NVIDIA A100", 40960), task=None, kept_for="41"),
        card(gpu=Gpu(4, "GPU-5", "NVIDIA A100", 40960), kept_for="42"),
    )
    text = "\n".join(nodes.describe(node(cards=cards)))
    local = NOW.astimezone().strftime("%Y-%m-%d %H:%M:%S")
    assert "17, 18_2" in text
    assert f"GPU 1, 2: kept for task 40 since {local}" in text
    assert "GPU 3: kept for task 41\n" in text + "\n"
    assert "task 42" not in text  # its card is held by another; 42 may be the time


def test_a_drained_node_says_why() -> None:
    text = "\n".join(nodes.describe(node(drained="new driver", why="new driver")))
    assert text.count("new driver") == 1
    assert "takes no new tasks: new driver" in text
    failed = "\n".join(nodes.describe(node(drained="launches_failed")))
    assert "three launches in a row have failed there" in failed


def test_what_is_not_as_one_might_think_is_said() -> None:
    simulated = node(cards=(card(gpu=Gpu(0, "s", "Fast", 1024, True)),), limits=())
    text = "\n".join(nodes.describe(simulated))
    assert "Fast (simulated)" in text
    assert "Nothing computes" in text
    assert "Not enforced on this node (no writable cgroup): --cpus and --memory." in text
    bare = node(cards=(), gpu_error="no driver", memory_available_mib=None)
    assert "No GPUs are listed: no driver" in "\n".join(nodes.describe(bare))
    gone = node(up=False, why=HOSTILE)
    lines = list(nodes.describe(gone))
    assert "out of reach for 3 h" in lines[0]
    assert all(line.isprintable() for line in lines)


def limited(hours: float, left_h: float) -> TaskView:
    """A running task with so much of its limit left."""
    spec = TaskSpec(command=("true",), name="it", time_limit_s=int(hours * 3600))
    return view(spec=spec, started_at=datetime.now(UTC) - timedelta(hours=hours - left_h))


def test_a_list_says_how_much_time_is_left_when_it_is_not_much() -> None:
    lines = ls.lines([limited(72, 20.5), limited(72, 30), limited(4, 0.75), limited(1, 0.5)], "ana")

    assert "[20 h 29 min left] it" in lines[1] or "[20 h 30 min left] it" in lines[1]
    assert "left" not in lines[2]
    assert "min left] it" in lines[3]
    assert "left" not in lines[4], "a short limit is always near"


def test_one_task_says_when_it_ends_at_the_latest() -> None:
    shown = "\n".join(show.describe(detail(limited(72, 30))))

    assert "at the latest, in 1 d 5 h" in shown
    assert "stoker extend 17 +2h" in shown
    assert "at the latest" not in "\n".join(show.describe(detail(view())))
