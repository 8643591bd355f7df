"""`stoker top` in a real pseudo-terminal, with a real server and simulated GPUs."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from stoker.cli.screen import width
from stoker.cli.top.painter import ENTER, LEAVE
from tests.helpers.pseudo_terminal import PseudoTerminal

from .conftest import Stoker, until

Opened = Callable[..., PseudoTerminal]


@pytest.fixture
def top(stoker: Stoker) -> Iterator[Opened]:
    """Opens `stoker top`; whatever is still open afterwards is closed."""
    opened = []

    def open_(*args: str, program: Sequence[str] | None = None, **env: str) -> PseudoTerminal:
        argv = program or stoker.command("top", *args)
        made = PseudoTerminal(argv, {**stoker.env, **env}, stoker.work)
        opened.append(made)
        return made

    yield open_
    for one in opened:
        one.close()


@pytest.fixture(scope="module")
def tasks(stoker: Stoker) -> dict[str, str]:
    """What everybody looks at here: four cards held, one task waits, one is held."""
    script = "for n in $(seq 100000); do echo step $n; sleep 0.2; done"
    found = {
        "runs": stoker.submit("-n", "训练 🚀", "-g", "4", "-c", script),
        "waits": stoker.submit("-n", "waits", "-g", "2", "--", "sleep", "1000"),
        "held": stoker.submit("-n", "held one", "--hold", "--", "true"),
    }
    until(lambda: stoker.task(found["runs"])["state"] == "RUNNING")
    return found


def without_times(screen: PseudoTerminal) -> list[str]:
    """The screen with what differs from run to run taken out."""
    lines = [re.sub(r"\d\d:\d\d:\d\d$", "HH:MM:SS", line) for line in screen.lines]
    lines = [re.sub(r"http://\S+", "URL", line) for line in lines]
    return [re.sub(r"\b\d+[sm]( +)", r"AGE\1", line) for line in lines]


def test_the_screen(stoker: Stoker, top: Opened, tasks: dict[str, str]) -> None:
    screen = top()
    screen.until("needs 2 cards, 0 free")
    screen.until("held by a person")
    name = stoker.json("nodes")[0]["name"]
    shown = without_times(screen)
    assert shown[0].startswith("Stoker  URL  1 running, 1 waiting, 1 held ")
    assert shown[0].endswith(" HH:MM:SS")
    assert len(screen.lines[0]) == 80
    assert shown[1].startswith(f"{name}  up for ")
    assert shown[2:6] == [
        f"   {n}  0/24 GiB    0 %  -  Simulated GPU  #{tasks['runs']} 训练 🚀" for n in range(4)
    ]
    columns = [re.sub(r" +", " ", line).strip() for line in shown[7:11]]
    assert columns == [
        "ID STATE SINCE CARDS TASK NODE OR REASON",
        f"> {tasks['runs']} running AGE 0,1,2,3 训练 🚀 {name}",
        f"{tasks['waits']} queued AGE (2) waits needs 2 cards, 0 free",
        f"{tasks['held']} held AGE - held one held by a person",
    ]
    assert (
        len(
            {
                _column_of(line, word)
                for line, word in [
                    (screen.lines[7], "NODE"),
                    (screen.lines[8], name),
                    (screen.lines[9], "needs"),
                ]
            }
        )
        == 1
    )  # wide characters are aligned
    assert shown[23] == "c cancel  h hold  l log  w why  ? help  q quit"


def _column_of(line: str, word: str) -> int:
    return width(line[: line.rindex(word)])


def test_chinese(top: Opened, tasks: dict[str, str]) -> None:
    screen = top(LANG="zh_CN.UTF-8")
    screen.until("需 2 块 GPU，空闲 0")
    assert "司炉" in screen.lines[0]
    assert "运行 1，等待 1，未就绪 1" in screen.lines[0]
    screen.press("?")
    screen.until("中止任务；先询问")


def test_leaving_gives_the_terminal_back(top: Opened, tasks: dict[str, str]) -> None:
    screen = top()
    screen.until("needs 2 cards")
    assert not screen.shows_cursor
    assert not screen.is_as_it_was
    screen.press("q")
    assert screen.until_gone() == 0
    _assert_given_back(screen)


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)]
)
def test_a_signal_gives_the_terminal_back(
    top: Opened, tasks: dict[str, str], number: signal.Signals, code: int
) -> None:
    screen = top()
    screen.until("needs 2 cards")
    screen.signal(number)
    assert screen.until_gone() == code
    _assert_given_back(screen)
    assert "Traceback" not in screen.sent.decode()


def _assert_given_back(screen: PseudoTerminal) -> None:
    assert screen.is_as_it_was
    assert screen.shows_cursor
    assert screen.sent.startswith(ENTER.encode())
    assert screen.sent.rstrip().endswith(LEAVE.encode())  # click ends the line after ^C


def test_suspended_and_resumed(stoker: Stoker, top: Opened, tasks: dict[str, str]) -> None:
    """In a shell without a line editor, which leaves the terminal as it finds it."""
    shell = top(program=["/bin/dash", "-i"], PS1="ready> ", ENV="")
    shell.until("ready>")
    shell.press(" ".join(stoker.command("top")) + "\r")
    shell.until("needs 2 cards")
    seen = [shell.is_as_it_was]
    shell.press("\x1a")
    shell.until("Stopped")
    assert LEAVE.encode() in shell.sent
    seen += [shell.is_as_it_was, shell.shows_cursor]
    begin = len(shell.sent)
    shell.press("fg\r")
    shell.until(lambda _: b"needs 2 cards" in shell.sent[begin:])
    seen += [shell.is_as_it_was, shell.shows_cursor]
    assert seen == [False, True, True, False, False]
    shell.press("q")
    shell.until(lambda _: shell.is_as_it_was and shell.shows_cursor)


def test_another_size(top: Opened, tasks: dict[str, str]) -> None:
    screen = top()
    screen.until("needs 2 cards, 0 free")
    screen.resize(60, 12)
    screen.until(lambda _: screen.lines[11].startswith("c cancel"))
    assert all(len(line) <= 60 for line in screen.lines)
    screen.resize(120, 30)
    screen.until(lambda _: screen.lines[29].startswith("c cancel"))
    assert screen.lines[0].endswith(tuple("0123456789"))
    assert len(screen.lines[0]) == 120


def test_while_nothing_changes_hardly_anything_is_sent(top: Opened, tasks: dict[str, str]) -> None:
    screen = top("--every", "1")
    screen.until("needs 2 cards")
    screen.until("held by a person")
    screen.read(1.0)
    sent = screen.read(5.0)
    # five times: the clock, and ages of three tasks and a node, each a few bytes
    assert 0 < len(sent) < 5 * 2 * 5 * 24
    assert b"\x1b[2J" not in sent


def test_no_color_means_none(top: Opened, tasks: dict[str, str]) -> None:
    screen = top(NO_COLOR="1")
    screen.until("needs 2 cards")
    assert not re.search(rb"\x1b\[[0-9;]*[1-9][0-9;]*m", screen.sent)
    coloured = top()
    coloured.until("needs 2 cards")
    assert re.search(rb"\x1b\[0;36m", coloured.sent)


def test_keys_act_on_the_server(stoker: Stoker, top: Opened, tasks: dict[str, str]) -> None:
    screen = top()
    screen.until("needs 2 cards")
    screen.press("j")
    screen.until(f"> {tasks['waits']} ")
    screen.press("h")
    until(lambda: stoker.task(tasks["waits"])["state"] == "HELD")
    screen.until(f"Task {tasks['waits']} is held")
    screen.until(lambda text: re.search(rf"> {tasks['waits']} +held", text))
    screen.press("h")
    until(lambda: stoker.task(tasks["waits"])["state"] == "QUEUED")
    screen.until(lambda text: re.search(rf"> {tasks['waits']} +queued", text))

    doomed = stoker.submit("-n", "doomed", "--", "sleep", "1000")
    screen.until("doomed")
    screen.press("\x1b[A" * 9)  # to the first
    screen.press("\x1b[B")
    screen.until(f"> {doomed} ")
    screen.press("c")
    screen.until(f"Cancel task {doomed} (doomed)? y/n")
    screen.press("n")
    screen.until(f"Task {doomed} goes on.")
    screen.press("cy")
    until(lambda: stoker.task(doomed)["outcome"] == "cancelled")
    screen.until(lambda text: "doomed" not in text)


def test_log_and_why(top: Opened, tasks: dict[str, str]) -> None:
    screen = top()
    screen.until("needs 2 cards")
    screen.press("\r")
    screen.until(f"Output of task {tasks['runs']}: 训练 🚀")
    screen.until("step ")
    newest = max(map(int, re.findall(r"step (\d+)", screen.text)))
    screen.until(f"step {newest + 5}")
    screen.press("q")
    screen.until("NODE OR REASON")
    screen.press("jw")
    screen.until(f"task {tasks['runs']} of ")
    screen.until("no time limit")
    screen.press("q")
    screen.until("NODE OR REASON")


def test_one_picture_for_whoever_has_no_terminal(stoker: Stoker, tasks: dict[str, str]) -> None:
    shown = stoker("top").stdout
    assert "\x1b" not in shown
    assert "needs 2 cards, 0 free" in shown
    assert f"#{tasks['runs']} 训练 🚀" in shown
    narrow = stoker("top", "--once", env={"COLUMNS": "60"}).stdout
    assert max(map(len, narrow.splitlines())) <= 60
    found: dict[str, Any] = json.loads(stoker("top", "--json").stdout)
    assert [task["id"] for task in found["tasks"]] == list(tasks.values())
    assert found["waits"][tasks["waits"]][0]["code"] == "gpus_busy"
    assert found["nodes"][0]["cards"][0]["task"] == tasks["runs"]


def test_once_on_a_terminal(top: Opened, tasks: dict[str, str]) -> None:
    screen = top("--once")
    assert screen.until_gone() == 0
    assert "needs 2 cards, 0 free" in screen.text
    assert b"\x1b[?1049h" not in screen.sent
    assert screen.is_as_it_was


def test_refusals(stoker: Stoker, tmp_path: Any) -> None:
    assert "every" in stoker("top", "--every", "0", code=2).stderr
    assert "stoker up" in stoker("top", code=3, env={"STOKER_HOME": str(tmp_path)}).stderr


def test_a_server_that_dies_and_comes_back(
    stoker: Stoker, top: Opened, tasks: dict[str, str]
) -> None:
    screen = top("--every", "1")
    screen.until("needs 2 cards")
    stoker.kill_server()
    screen.until("The server has not answered since")
    assert "训练 🚀" in screen.text  # what was last known
    stoker.up()
    screen.until(lambda text: "has not answered" not in text)
    later = stoker.submit("-n", "submitted later", "--hold", "--", "true")
    screen.until("submitted later")
    stoker("cancel", later)
    screen.until(lambda text: "submitted later" not in text)
    screen.press("q")
    assert screen.until_gone() == 0
    _assert_given_back(screen)
