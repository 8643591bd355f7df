"""What a person reads about a wait: the answer first, then everything behind it, never 1,000 lines."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from stoker import text
from stoker.cli import delete, reasons, why
from stoker.domain.task import TaskSpec, fields
from stoker.wire import (
    ArrayCounts,
    EstimateView,
    HolderView,
    PlaceView,
    StartView,
    SuggestionView,
    TaskView,
    WaitReason,
    WhyView,
)

from .test_shown import HOSTILE, view

NOW = datetime.now(UTC)
LATER = NOW + timedelta(days=2, hours=12, minutes=30)


def reason(code: str, **values: Any) -> WaitReason:
    return WaitReason(code=code, message=text.message(code, values, "en"), values=values)


def busy(node: str, free: int, need: int = 4) -> WaitReason:
    return reason("gpus_busy", node=node, need=need, have=8, free=free)


def suggestion(code: str, values: dict[str, Any], options: dict[str, Any]) -> SuggestionView:
    said = text.message(code, values, "en")
    return SuggestionView(code=code, message=said, values=values, options=options)


def found(**changes: Any) -> WhyView:
    base = WhyView(
        starts=None, reasons=(), holders=(), place=None, estimate=None, suggestions=()
    )  # fmt: skip
    return msgspec.structs.replace(base, **changes)


def waiting(**changes: Any) -> TaskView:
    return view(state="QUEUED", started_at=None, node=None, gpu_ids=(), **changes)


def lines(task: TaskView, told: WhyView) -> list[str]:
    return list(why.describe(task, told))


def test_the_first_line_is_the_answer() -> None:
    told = lines(waiting(), found(reasons=(busy("lab1", 1),)))
    assert told == [
        "Task 17 (训练) waits: Needs 4 of the 8 GPUs on lab1; 1 are free now.",
    ]


def test_everything_behind_it() -> None:
    holders = (
        HolderView(task="3", owner="ana", node="lab1", gpu_ids=(0, 1), ends=LATER),
        HolderView(task="4_7", owner="bob", node="lab1", gpu_ids=(2,), ends=None),
    )
    told = lines(
        waiting(),
        found(
            reasons=(busy("lab1", 1), reason("cpus_busy", node="lab1", need=8, free=2)),
            holders=holders,
            place=PlaceView(ahead=2, more=False, waiting=9),
            estimate=EstimateView(at=LATER, basis=reason("estimate_limits")),
            suggestions=(suggestion("try_fewer_gpus", {"gpus": 1}, {"gpus": 1}),),
        ),
    )
    assert told[0].endswith("waits: No node has room for it now.")
    body = "\n".join(told[1:])
    local = LATER.astimezone().strftime("%Y-%m-%d %H:%M:%S")
    for part in (
        "why", "Needs 4 of the 8 GPUs on lab1", "Needs 8 CPU cores",
        f"task 3 of ana: lab1, GPU 0, 1, until {local} at the latest",
        "task 4_7 of bob: lab1, GPU 2, no time limit",
        "2 before it, 9 in all",
        f"At {local}, in 2 d 12 h. By then the tasks before it",
        "With fewer GPUs (1) it would start now.  stoker edit 17 --gpus 1",
    ):  # fmt: skip
        assert part in body, part


def test_a_thousand_nodes_are_a_few_lines() -> None:
    full = [busy(f"node-{n}", free=3 if n == 777 else 0) for n in range(900)]
    down = [reason("node_down", node=f"down-{n}") for n in range(99)]
    drained = [reason("node_drained", node="old", why="new driver")]
    told = lines(waiting(), found(reasons=tuple(full + down + drained)))
    assert len(told) == 4
    body = "\n".join(told)
    assert "900 nodes have fewer than 4 GPUs free; the most are 3, on node-777." in body
    assert "99 nodes are out of reach: down-0, down-1, down-2, and 96 more." in body
    assert "old takes no new tasks: new driver." in body


def test_a_few_nodes_are_named_one_by_one() -> None:
    paused = reason("paused", by="ana", since="at noon", because="a full disk")
    told = reasons.told([busy("a", 1), busy("b", 2), paused])
    assert told == [
        "Scheduling is paused by ana since at noon: a full disk",
        "Needs 4 of the 8 GPUs on a; 1 are free now.",
        "Needs 4 of the 8 GPUs on b; 2 are free now.",
    ]
    assert reasons.told([reason("held"), reason("held")]) == ["Held by a person."]


def test_a_code_of_a_newer_server_is_said_in_its_words() -> None:
    new = [
        WaitReason(code="eclipse", message=f"The sun is dark on n{n}.", values={"node": f"n{n}"})
        for n in range(5)
    ]
    assert reasons.told(new) == [*(f"The sun is dark on n{n}." for n in range(3)), "and 2 more"]
    at = WaitReason(code="eclipse", message="Until noon.", values={"at": "2030-01-01T12:00:00Z"})
    assert reasons.sentence(at) == "Until noon."


def test_times_are_those_of_the_wall_clock() -> None:
    local = LATER.astimezone().strftime("%Y-%m-%d %H:%M:%S")
    at = LATER.isoformat()
    assert reasons.sentence(reason("not_before", at=at)) == f"It starts at {local} at the earliest."
    kept = {"node": "a", "gpus": "0", "task": "9"}
    assert reasons.sentence(reason("gpus_kept", **kept, since=at)).endswith(f"since {local}.")
    assert reasons.sentence(reason("gpus_kept", **kept, since=None)).endswith("kept for task 9.")
    assert reasons.sentence(reason("not_before", at="soon")).endswith("soon at the earliest.")


@pytest.mark.parametrize(
    ("ahead", "more", "said"),
    [(0, False, "first of 5"), (3, False, "3 before it, 5 in all"), (1000, True, "at least 1000")],
)
def test_places(ahead: int, more: bool, said: str) -> None:
    place = PlaceView(ahead=ahead, more=more, waiting=5)
    assert said in "\n".join(lines(waiting(), found(reasons=(busy("a", 1),), place=place)))


def test_many_holders_are_cut_short() -> None:
    holders = tuple(
        HolderView(task=str(n), owner="ana", node="a", gpu_ids=(n,), ends=None) for n in range(40)
    )
    told = lines(waiting(), found(reasons=(busy("a", 0),), holders=holders))
    assert len(told) == 12
    assert told[-1].strip() == "and 30 more"


@pytest.mark.parametrize(
    ("code", "values", "options", "typed"),
    [
        ("try_fewer_gpus", {"gpus": 2}, {"gpus": 2}, "stoker edit 17 --gpus 2"),
        ("try_any_model", {}, {"gpu_model": []}, "stoker edit 17 --unset gpu-model"),
        ("try_any_node", {}, {"node": ""}, "stoker edit 17 --unset node"),
        ("try_model", {"model": "A 100"}, {"gpu_model": ["A 100"]},
         "stoker edit 17 --gpu-model 'A 100'"),
        ("try_shared", {"memory_mib": 8192}, {"mode": "shared", "gpu_memory_mib": 8192},
         "stoker edit 17 --mode shared --gpu-memory 8G"),
        ("try_time_limit", {"limit_s": 7200}, {"time_limit_s": 7200},
         "stoker edit 17 --time-limit 2h"),
        ("try_queue", {"queue": "short"}, {"queue": "short"}, "stoker edit 17 --queue short"),
        ("try_anyway", {}, {}, "stoker release --anyway 17"),
        ("try_release", {}, {}, "stoker release 17"),
    ],
)  # fmt: skip
def test_a_suggestion_can_be_typed(
    code: str, values: dict[str, Any], options: dict[str, Any], typed: str
) -> None:
    assert set(options) <= {field.name for field in fields()}
    one = suggestion(code, values, options)
    told = lines(waiting(), found(reasons=(busy("a", 1),), suggestions=(one,)))
    assert told[-1].endswith(f"  {typed}")
    assert "?" not in told[-1]


def test_a_preview_names_options_only() -> None:
    one = suggestion("try_fewer_gpus", {"gpus": 1}, {"gpus": 1})
    told = list(why.describe_preview(found(reasons=(busy("a", 1),), suggestions=(one,))))
    assert told[0].startswith("It would wait: Needs 4")
    assert told[-1].endswith("  --gpus 1")
    assert "stoker edit" not in "".join(told)
    starts = (StartView(node="a", gpu_ids=(0, 1)), StartView(node="b", gpu_ids=()))
    assert list(why.describe_preview(found(starts=starts))) == [
        "It would start now on a, GPU 0, 1; b.",
    ]


def test_what_does_not_wait_says_so() -> None:
    assert "does not wait: running for 3 min on node-a, GPU 0, 1." in lines(view(), found())[0]
    done = view(state="FINISHED", outcome="failed")
    assert lines(done, found()) == ["Task 17 (训练) does not wait: failed."]
    array = waiting(array=ArrayCounts(size=10, live=4, succeeded=6))
    assert lines(array, found()) == [
        "Task 17 (训练): all of its elements have started; 6/10 done, 4 running.",
    ]
    assert lines(waiting(), found())[0].endswith("It starts in a moment.")


def test_nothing_of_others_reaches_the_terminal_as_it_is() -> None:
    told = found(
        reasons=(
            reason("node_drained", node=HOSTILE, why=HOSTILE),
            WaitReason(code="new", message=HOSTILE),
        ),
        holders=(HolderView(task="1", owner=HOSTILE, node=HOSTILE, gpu_ids=(), ends=None),),
        suggestions=(suggestion("try_queue", {"queue": HOSTILE}, {"queue": HOSTILE}),),
    )
    task = waiting(spec=TaskSpec(command=HOSTILE))
    for line in [*lines(task, told), *why.describe_preview(told)]:
        assert line.isprintable(), line
    for line in delete.preview([delete.Going(task, [task])], True):
        assert line.isprintable(), line


def test_in_chinese(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANG", "zh_CN.UTF-8")
    told = found(
        reasons=tuple(busy(f"n{n}", 0) for n in range(8)),
        place=PlaceView(ahead=0, more=False, waiting=3),
        suggestions=(suggestion("try_fewer_gpus", {"gpus": 1}, {"gpus": 1}),),
    )
    body = "\n".join(lines(waiting(), told))
    assert "任务 17（训练）正在等待：8 个节点的空闲 GPU 少于 4 块" in body
    assert "第 1 位，共 3 个" in body
    assert "stoker edit 17 --gpus 1" in body


# ---- deleting shows what goes


def test_what_goes_is_shown_before_it_goes() -> None:
    first, second, third = (waiting(id=id) for id in ("1", "2", "3"))
    going = [delete.Going(first, [second, third]), delete.Going(second, [third])]
    alone = "\n".join(delete.preview(going, False))
    assert alone.index("(2):") < alone.index("1  训练  (queued)") < alone.index("2  训练")
    assert "wait in vain" in alone
    assert alone.index("(1):") < alone.index("3  训练")
    together = "\n".join(delete.preview(going, True))
    assert "(3):" in together
    assert "in vain" not in together
    many = [waiting(id=str(n)) for n in range(2, 52)]
    assert len(list(delete.preview([delete.Going(first, many)], True))) == 22


def test_what_is_to_be_typed_is_never_broken_in_two(monkeypatch: pytest.MonkeyPatch) -> None:
    one = suggestion(
        "try_shared", {"memory_mib": 8192}, {"mode": "shared", "gpu_memory_mib": 8192}
    )  # fmt: skip
    monkeypatch.setattr(why, "terminal_width", lambda: 80)
    told = lines(waiting(), found(reasons=(busy("a", 1),), suggestions=(one,)))
    assert told[-1].strip() == "stoker edit 17 --mode shared --gpu-memory 8G"
    assert max(map(len, told)) <= 80
