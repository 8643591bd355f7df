"""Keys and answers in, orders out."""

from __future__ import annotations

import pytest

from stoker.cli.top.model import Broken, Order, Said, Seen
from stoker.cli.top.short import short
from stoker.wire import WaitReason

from .scenes import LAB, lab, reason, task


def test_the_selection_stays_with_its_task() -> None:
    scene = lab()
    assert scene.selected == "17"
    scene.press("down", 5)
    assert scene.selected == "19"
    scene.hear(LAB._replace(tasks=[task("30"), *(LAB.tasks or ())]))
    assert scene.selected == "19"
    left = [one for one in LAB.tasks or () if one.id != "19"]
    scene.hear(LAB._replace(tasks=[task("30"), *left]))
    assert scene.selected == "20"  # what took its place
    scene.hear(Seen([], []))
    assert scene.selected == ""
    assert scene.press("c", 5) == ()
    assert not scene.asked


def test_moving_stops_at_both_ends() -> None:
    scene = lab()
    for key, id in (("up", "17"), ("pagedown", "22"), ("end", "21"), ("j", "21"), ("home", "17")):
        scene.press(key, 3)
        assert scene.selected == id


@pytest.mark.parametrize(
    ("key", "orders"), [("y", (Order("cancel", "17"),)), ("n", ()), ("escape", ()), ("c", ())]
)
def test_cancel_asks(key: str, orders: tuple[Order, ...]) -> None:
    scene = lab()
    assert scene.press("c", 5) == ()
    assert scene.asked == "17"
    assert scene.press(key, 5) == orders
    assert not scene.asked


def test_quitting_needs_no_answer_but_a_question_does() -> None:
    scene = lab()
    scene.press("c", 5)
    assert scene.press("q", 5) == ()
    assert scene.press("q", 5) is None


def test_the_question_is_about_the_task_it_was_asked_for() -> None:
    scene = lab()
    scene.press("c", 5)
    scene.hear(Seen([], [task("40")]))  # 17 has ended meanwhile, 40 is selected now
    assert scene.press("y", 5) == (Order("cancel", "17"),)


@pytest.mark.parametrize(
    ("id", "orders"),
    [("19", (Order("hold", "19"),)), ("21", (Order("release", "21"),)), ("17", ())],
)
def test_hold_and_release(id: str, orders: tuple[Order, ...]) -> None:
    scene = lab(selected=id)
    assert scene.press("h", 5) == orders
    assert bool(scene.notice) == (not orders)


def test_panels_open_and_close() -> None:
    scene = lab()
    assert scene.press("enter", 5) == (Order("log", "17"),)
    assert scene.press("q", 5) == (Order("log", ""),)
    assert scene.press("w", 5) == (Order("why", "17"),)
    assert scene.press("escape", 5) == ()
    views = []
    for key in ("?", "c", "q"):
        scene.press(key, 5)
        views.append(scene.view)
        assert not scene.asked  # nothing is selected in a panel
    assert views == ["help", "help", "tasks"]


def test_mine_or_everybodys() -> None:
    scene = lab()
    scene.press("a", 5)
    assert (scene.only_mine, scene.notice) == (False, "All tasks are yours.")
    scene.hear(LAB._replace(tasks=[task("50", owner="bob"), *(LAB.tasks or ())]))
    scene.press("a", 5)
    assert "50" not in [one.id for one in scene.tasks]
    scene.press("a", 5)
    assert "50" in [one.id for one in scene.tasks]


def test_a_bug_beside_the_screen_is_not_swallowed() -> None:
    with pytest.raises(ZeroDivisionError):
        lab().hear(Broken(ZeroDivisionError()))


def test_a_notice_is_gone_with_the_next_key() -> None:
    scene = lab()
    scene.hear(Said("done"))
    scene.press("down", 5)
    assert scene.notice == ""


def test_reasons_of_tasks_that_do_not_wait_any_more_are_forgotten() -> None:
    scene = lab()
    scene.hear(Seen([], [task("19"), task("20", "QUEUED")], reasons={}))
    assert set(scene.reasons) == {"20"}


@pytest.mark.parametrize(
    ("reasons", "phrase"),
    [
        ([], ""),
        ([reason("held")], "held by a person"),
        ([reason("gpus_busy", node=f"n{n}", need=4, have=8, free=n) for n in (1, 3, 2)],
         "needs 4 cards, 3 free"),
        ([reason("gpus_busy", node="a", need=4, have=8, free=1), reason("paused")],
         "scheduling is paused"),
        ([reason("memory_busy", node="a", need=65536, free=1024)],
         "needs 64 GiB memory, 1 GiB free"),
        ([WaitReason(code="from_the_future", message="The \x1b[31mmoon is full.")],
         "The \\x1b[31mmoon is full."),
        ([reason("not_before", at="nonsense")], "not before nonsense"),
    ],
)  # fmt: skip
def test_a_short_reason(reasons: list[WaitReason], phrase: str) -> None:
    assert short(reasons) == phrase
