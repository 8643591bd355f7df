"""The screen, line by line, in both languages and at the widths that people have."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta

import pytest

from stoker.cli.screen import width
from stoker.cli.top.fleet import fleet_lines
from stoker.cli.top.lines import render, render_all, visible
from stoker.cli.top.model import Explained, Lost, Said, Scene, Seen, Written
from stoker.cli.top.painter import cells, dressed
from tests.unit.cli.test_shown import HOSTILE

from .scenes import LAB, NOW, card, drawn, lab, node, task


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


SCREENS = {
    ("C.UTF-8", 60, 16): """
Stoker  2 running, 8 waiting, 1 held                12:34:56
lab1  up for 3 d  CPU 8/32  memory 16/128 GiB  load 7.2
   0  21/24 GiB   97 %  71 °C  RTX 4090  #17 训练 vit-large…
   1  21/24 GiB   99 %  88 °C  RTX 4090  #17 训练 vit-large…
   2  0/24 GiB     0 %  38 °C  RTX 4090  kept for #19
   3  6/24 GiB    50 %  60 °C  RTX 4090  not ours: bob pyth…
lab2  out of reach for 5 min

  ID  STATE    SINCE  CARDS  TASK         NODE OR REASON
> 17  running  1h30m  0,1    训练 vit-l…  lab1
  19  queued   2h00m  (2)    finetune-b…  needs 2 cards, 1 …
  20  queued   2h00m  (2)    python tra…  after #17
  22  queued   2h00m  (2)    sweep        3/10 done, 1 runn…
  21  held     2h00m  (2)    夜间评测     held by a person

c cancel  h hold  l log  w why  ? help  q quit
""",
    ("C.UTF-8", 80, 16): """
Stoker  http://127.0.0.1:7433  2 running, 8 waiting, 1 held             12:34:56
lab1  up for 3 d  CPU 8/32  memory 16/128 GiB  load 7.2
   0  21/24 GiB   97 %  71 °C  RTX 4090  #17 训练 vit-large 🚀 第三次
   1  21/24 GiB   99 %  88 °C  RTX 4090  #17 训练 vit-large 🚀 第三次
   2  0/24 GiB     0 %  38 °C  RTX 4090  kept for #19
   3  6/24 GiB    50 %  60 °C  RTX 4090  not ours: bob python (4242)
lab2  out of reach for 5 min

  ID  STATE    SINCE  CARDS  TASK                          NODE OR REASON
> 17  running  1h30m  0,1    训练 vit-large 🚀 第三次      lab1
  19  queued   2h00m  (2)    finetune-bert-on-everything…  needs 2 cards, 1 free
  20  queued   2h00m  (2)    python train.py               after #17
  22  queued   2h00m  (2)    sweep                         3/10 done, 1 running
  21  held     2h00m  (2)    夜间评测                      held by a person

c cancel  h hold  l log  w why  ? help  q quit
""",
    ("C.UTF-8", 120, 16): """
Stoker  http://127.0.0.1:7433  2 running, 8 waiting, 1 held                                                     12:34:56
lab1  up for 3 d  CPU 8/32  memory 16/128 GiB  load 7.2
   0  21/24 GiB   97 %  71 °C  RTX 4090  #17 训练 vit-large 🚀 第三次
   1  21/24 GiB   99 %  88 °C  RTX 4090  #17 训练 vit-large 🚀 第三次
   2  0/24 GiB     0 %  38 °C  RTX 4090  kept for #19
   3  6/24 GiB    50 %  60 °C  RTX 4090  not ours: bob python (4242)
lab2  out of reach for 5 min

  ID  STATE    SINCE  CARDS  TASK                                 NODE OR REASON
> 17  running  1h30m  0,1    训练 vit-large 🚀 第三次             lab1
  19  queued   2h00m  (2)    finetune-bert-on-everything-we-have  needs 2 cards, 1 free
  20  queued   2h00m  (2)    python train.py                      after #17
  22  queued   2h00m  (2)    sweep                                3/10 done, 1 running
  21  held     2h00m  (2)    夜间评测                             held by a person

c cancel  h hold  l log  w why  ? help  q quit
""",
    ("C.UTF-8", 80, 11): """
Stoker  http://127.0.0.1:7433  2 running, 8 waiting, 1 held             12:34:56
lab1  2 of 4 cards held  CPU 8/32  memory 16/128 GiB  up for 3 d
lab2  0 of 0 cards held  CPU 8/32  memory 16/128 GiB  out of reach for 5 min

  ID  STATE    SINCE  CARDS  TASK                          NODE OR REASON
> 17  running  1h30m  0,1    训练 vit-large 🚀 第三次      lab1
  19  queued   2h00m  (2)    finetune-bert-on-everything…  needs 2 cards, 1 free
  20  queued   2h00m  (2)    python train.py               after #17
  22  queued   2h00m  (2)    sweep                         3/10 done, 1 running
  21  held     2h00m  (2)    夜间评测                      held by a person
c cancel  h hold  l log  w why  ? help  q quit
""",
    ("zh_CN.UTF-8", 60, 16): """
司炉  运行 2，等待 8，未就绪 1                      12:34:56
lab1  在线 3 天  CPU 8/32  内存 16/128 GiB  负载 7.2
   0  21/24 GiB   97 %  71 °C  RTX 4090  #17 训练 vit-large…
   1  21/24 GiB   99 %  88 °C  RTX 4090  #17 训练 vit-large…
   2  0/24 GiB     0 %  38 °C  RTX 4090  为任务 #19 预留
   3  6/24 GiB    50 %  60 °C  RTX 4090  外部进程：bob pyth…
lab2  掉线 5 分钟

  编号  状态      已     GPU  任务         节点或原因
> 17    运行中    1h30m  0,1  训练 vit-l…  lab1
  19    准备就绪  2h00m  (2)  finetune-b…  需 2 块 GPU，空…
  20    准备就绪  2h00m  (2)  python tra…  等待前驱任务 #17
  22    准备就绪  2h00m  (2)  sweep        已结束 3/10, 运…
  21    未就绪    2h00m  (2)  夜间评测     未就绪

c 中止  h 未就绪/就绪  l 日志  w 原因  ? 帮助  q 退出
""",
    ("zh_CN.UTF-8", 80, 16): """
司炉  http://127.0.0.1:7433  运行 2，等待 8，未就绪 1                   12:34:56
lab1  在线 3 天  CPU 8/32  内存 16/128 GiB  负载 7.2
   0  21/24 GiB   97 %  71 °C  RTX 4090  #17 训练 vit-large 🚀 第三次
   1  21/24 GiB   99 %  88 °C  RTX 4090  #17 训练 vit-large 🚀 第三次
   2  0/24 GiB     0 %  38 °C  RTX 4090  为任务 #19 预留
   3  6/24 GiB    50 %  60 °C  RTX 4090  外部进程：bob python (4242)
lab2  掉线 5 分钟

  编号  状态      已     GPU  任务                         节点或原因
> 17    运行中    1h30m  0,1  训练 vit-large 🚀 第三次     lab1
  19    准备就绪  2h00m  (2)  finetune-bert-on-everythin…  需 2 块 GPU，空闲 1
  20    准备就绪  2h00m  (2)  python train.py              等待前驱任务 #17
  22    准备就绪  2h00m  (2)  sweep                        已结束 3/10, 运行中 1
  21    未就绪    2h00m  (2)  夜间评测                     未就绪

c 中止  h 未就绪/就绪  l 日志  w 原因  ? 帮助  q 退出
""",
    ("zh_CN.UTF-8", 120, 16): """
司炉  http://127.0.0.1:7433  运行 2，等待 8，未就绪 1                                                           12:34:56
lab1  在线 3 天  CPU 8/32  内存 16/128 GiB  负载 7.2
   0  21/24 GiB   97 %  71 °C  RTX 4090  #17 训练 vit-large 🚀 第三次
   1  21/24 GiB   99 %  88 °C  RTX 4090  #17 训练 vit-large 🚀 第三次
   2  0/24 GiB     0 %  38 °C  RTX 4090  为任务 #19 预留
   3  6/24 GiB    50 %  60 °C  RTX 4090  外部进程：bob python (4242)
lab2  掉线 5 分钟

  编号  状态      已     GPU  任务                                 节点或原因
> 17    运行中    1h30m  0,1  训练 vit-large 🚀 第三次             lab1
  19    准备就绪  2h00m  (2)  finetune-bert-on-everything-we-have  需 2 块 GPU，空闲 1
  20    准备就绪  2h00m  (2)  python train.py                      等待前驱任务 #17
  22    准备就绪  2h00m  (2)  sweep                                已结束 3/10, 运行中 1
  21    未就绪    2h00m  (2)  夜间评测                             未就绪

c 中止  h 未就绪/就绪  l 日志  w 原因  ? 帮助  q 退出
""",
    ("zh_CN.UTF-8", 80, 11): """
司炉  http://127.0.0.1:7433  运行 2，等待 8，未就绪 1                   12:34:56
lab1  GPU 已占用 2/4  CPU 8/32  内存 16/128 GiB  在线 3 天
lab2  GPU 已占用 0/0  CPU 8/32  内存 16/128 GiB  掉线 5 分钟

  编号  状态      已     GPU  任务                         节点或原因
> 17    运行中    1h30m  0,1  训练 vit-large 🚀 第三次     lab1
  19    准备就绪  2h00m  (2)  finetune-bert-on-everythin…  需 2 块 GPU，空闲 1
  20    准备就绪  2h00m  (2)  python train.py              等待前驱任务 #17
  22    准备就绪  2h00m  (2)  sweep                        已结束 3/10, 运行中 1
  21    未就绪    2h00m  (2)  夜间评测                     未就绪
c 中止  h 未就绪/就绪  l 日志  w 原因  ? 帮助  q 退出
""",
}


@pytest.mark.parametrize(("lang", "columns", "rows"), list(SCREENS))
def test_the_whole_screen(
    lang: str, columns: int, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANG", lang)
    shown = drawn(lab(), columns, rows)
    assert "\n".join(shown) == SCREENS[lang, columns, rows].strip("\n")
    assert len(shown) == rows
    assert max(map(width, shown)) <= columns


@pytest.mark.parametrize("columns", [1, 10, 33, 80])
@pytest.mark.parametrize("view", ["tasks", "why", "log", "help"])
def test_any_size_is_filled_and_never_exceeded(view: str, columns: int) -> None:
    scene = lab(view=view, about="17", text=["训练" * 30, "x" * 99, ""] * 9, last="end")
    for rows in range(1, 30):
        lines = render(scene, columns, rows, NOW)
        assert len(lines) == rows
        assert all(len(cells(line, columns)) <= columns for line in lines)


def test_the_selected_task_is_always_on_the_screen() -> None:
    scene = lab()
    scene.hear(Seen([], [task(str(n)) for n in range(1, 100)]))
    for _ in range(98):
        assert f"> {scene.selected} " in "\n".join(drawn(scene, 80, 12)) + " "
        assert scene.selected in [one.id for one in visible(scene, 80, 12, NOW)]
        scene.press("down", 8)


def test_many_nodes_are_folded_then_counted() -> None:
    scene = Scene(server="x")
    scene.hear(Seen([node(f"lab{n}", card(0), card(1, task="1")) for n in range(9)], []))
    assert len(fleet_lines(scene, 80, 27, NOW)) == 27
    folded = fleet_lines(scene, 80, 26, NOW)
    assert len(folded) == 9
    assert "1 of 2 cards held" in dressed(cells(folded[0], 80), False)
    counted = [dressed(cells(line, 80), False) for line in fleet_lines(scene, 80, 5, NOW)]
    assert (len(counted), counted[-1]) == (5, "and 5 more nodes")


def test_nothing_a_person_wrote_reaches_the_terminal() -> None:
    scene = Scene(server=HOSTILE, me="ana")
    hostile = node(
        HOSTILE, card(0, task="1", tasks=("1",), foreign=(HOSTILE,)), why=HOSTILE, drained=HOSTILE
    )
    owners = [task("1", name=HOSTILE, owner=HOSTILE, node=HOSTILE), task("2")]
    scene.hear(Seen([hostile], owners))
    for changes in ({}, {"asked": "1"}, {"view": "why", "about": "1"}):
        for name, value in changes.items():
            setattr(scene, name, value)
        for coloured in (False, True):
            text = "".join(
                dressed(cells(line, 200), coloured) for line in render(scene, 200, 30, NOW)
            )
            left = text.replace("\x1b[0m", "").replace("\x1b[0;", "")
            assert not set("\x1b\x07\n\u202e\x9b") & set(left)


def test_the_bottom_line_says_what_matters_most() -> None:
    scene = lab()
    assert drawn(scene, 80, 16)[-1].startswith("c cancel")
    scene.hear(Said("Task 17: stopping."))
    assert drawn(scene, 80, 16)[-1] == "Task 17: stopping."
    scene.hear(Lost(NOW - timedelta(minutes=1)))
    scene.hear(Lost(NOW))
    assert "since 12:33:56" in drawn(scene, 80, 16)[-1]
    scene.press("c", 5)
    assert drawn(scene, 80, 16)[-1] == "Cancel task 17 (训练 vit-large 🚀 第三次)? y/n"
    scene.press("n", 5)
    scene.hear(LAB)  # it answers again
    assert drawn(scene, 80, 16)[-1] == "Task 17 goes on."


def test_a_log_shows_its_end_and_scrolls_back() -> None:
    scene = lab(selected="17")
    scene.press("l", 5)
    scene.hear(Written("17", [f"step {n}" for n in range(50)], "now", afresh=True))
    shown = drawn(scene, 80, 12)
    assert shown[0].startswith("Output of task 17: 训练 vit-large")
    assert shown[1:-1] == [*(f"step {n}" for n in range(41, 50)), "now"]
    scene.press("pageup", 10)
    assert drawn(scene, 80, 12)[1:-1] == [f"step {n}" for n in range(31, 41)]
    scene.hear(Written("17", ["step 50"], "", afresh=False))
    assert drawn(scene, 80, 12)[-2] == "step 40"  # who reads stays where he is
    scene.hear(Written("19", ["of another"], "", afresh=True))
    assert "another" not in "".join(drawn(scene, 80, 12))


def test_why_is_told_in_lines_that_fit() -> None:
    scene = lab(selected="19")
    scene.press("w", 5)
    assert "One moment" in drawn(scene, 40, 12)[1]
    scene.hear(
        Explained("19", ["Task 19 waits: " + "needs room " * 9, "  held by  训练" + "啊" * 30])
    )
    shown = drawn(scene, 40, 12)
    assert shown[1] == "Task 19 waits: needs room needs room"
    assert shown[4].startswith("  held by  训练")
    assert shown[5].startswith("  啊")


def test_everything_for_a_file_is_not_cut() -> None:
    lines = [dressed(cells(line, 1000), False) for line in render_all(lab(selected=""), 1000, NOW)]
    assert lines[0].endswith("1 held  2030-01-31 12:34:56")
    assert not any("…" in line or ">" in line for line in lines)
    empty = Scene(server="x")
    empty.hear(Seen([], []))
    assert [dressed(cells(line, 80), False) for line in render_all(empty, 80, NOW)][1:] == [
        "No node has reported yet.", "", "No tasks are waiting or running.",
    ]  # fmt: skip
