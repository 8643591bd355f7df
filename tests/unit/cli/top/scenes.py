"""A lab on the screen: two nodes, cards in every condition, tasks in every state."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from stoker.cli.top.lines import render
from stoker.cli.top.model import Scene, Seen
from stoker.cli.top.painter import cells, dressed
from stoker.domain.node import Gpu
from stoker.domain.task import TaskSpec
from stoker.wire import ArrayCounts, CardView, NodeView, TaskView, WaitReason

NOW = datetime(2030, 1, 31, 12, 34, 56, tzinfo=UTC)


def task(id: str, state: str = "RUNNING", name: str = "", **changes: Any) -> TaskView:
    is_waiting = state in ("HELD", "QUEUED")
    spec = TaskSpec(command=("python", "train.py"), name=name, gpus=2)
    base = TaskView(
        id=id, owner="ana", state=state, version=1, submitted_at=NOW - timedelta(hours=2),
        attempts=0 if is_waiting else 1,
        started_at=None if is_waiting else NOW - timedelta(minutes=90), finished_at=None,
        node=None if is_waiting else "lab1", gpu_ids=() if is_waiting else (0, 1), outcome=None,
        reason=None, message=None, exit_code=None, signal=None, stopped_by=None, spec=spec,
    )  # fmt: skip
    return msgspec.structs.replace(base, **changes)


def card(index: int, **changes: Any) -> CardView:
    gpu = Gpu(index, f"GPU-{index}", "NVIDIA GeForce RTX 4090", 24564)
    base = CardView(
        gpu=gpu, task=None, memory_used_mib=0, utilisation=0, temperature_c=38, power_w=20,
        foreign=(),
    )  # fmt: skip
    return msgspec.structs.replace(base, **changes)


def node(name: str, *cards: CardView, **changes: Any) -> NodeView:
    base = NodeView(
        name=name, up=True, since=NOW - timedelta(days=3), why="", cpus=32, cpus_held=8,
        memory_mib=131072, memory_held_mib=16384, memory_available_mib=90000, load1=7.25,
        disk_free_mib=500000, limits=(), gpu_error="", cards=cards,
    )  # fmt: skip
    return msgspec.structs.replace(base, **changes)


def reason(code: str, **values: Any) -> WaitReason:
    return WaitReason(code=code, message=f"About {code}.", values=values)


LAB = Seen(
    nodes=[
        node(
            "lab1",
            card(0, task="17", tasks=("17",), memory_used_mib=21504, utilisation=97, temperature_c=71),
            card(1, task="17", tasks=("17",), memory_used_mib=21504, utilisation=99, temperature_c=88),
            card(2, kept_for="19"),
            card(3, memory_used_mib=6144, utilisation=50, temperature_c=60,
                 foreign=("bob:4242:python",)),
        ),
        node("lab2", up=False, since=NOW - timedelta(minutes=5), why="", load1=None),
    ],
    tasks=[
        task("17", name="训练 vit-large 🚀 第三次"),
        task("19", "QUEUED", name="finetune-bert-on-everything-we-have"),
        task("20", "QUEUED", gpu_ids=()),
        task("21", "HELD", name="夜间评测"),
        task("22", "QUEUED", name="sweep", array=ArrayCounts(size=10, waiting=6, live=1, succeeded=3)),
    ],
    reasons={
        "19": [reason("gpus_busy", node="lab1", need=2, have=4, free=1)],
        "20": [reason("node_down", node="lab2"), reason("after_pending", task="17", when="ok")],
        "21": [reason("held")],
    },
)  # fmt: skip


def lab(**changes: Any) -> Scene:
    scene = Scene(server="http://127.0.0.1:7433", me="ana")
    scene.hear(LAB)
    for name, value in changes.items():
        setattr(scene, name, value)
    return scene


def drawn(scene: Scene, columns: int, rows: int) -> list[str]:
    """The screen as text."""
    return [dressed(cells(line, columns), False) for line in render(scene, columns, rows, NOW)]
