"""What `stoker top` knows and shows, as a value: answers and keys in, orders out.

Pure: no clock, no network, no terminal. Whoever owns a Scene tells it what was heard (`hear`) and
what was pressed (`press`), and carries out the orders that come back. A task is selected by its
id, so that the selection stays with it when lines move.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, NamedTuple

from stoker.cli.say import words
from stoker.cli.shown import title
from stoker.wire import NodeView, TaskView, WaitReason

ORDER = {"RUNNING": 0, "STOPPING": 0, "STARTING": 1, "QUEUED": 2, "HELD": 3}
MOST_LOG_LINES = 5000
WAITING = ("HELD", "QUEUED")


# ---- what is heard


class Seen(NamedTuple):
    """The server has answered. None: this was not asked again."""

    nodes: Sequence[NodeView]
    tasks: Sequence[TaskView] | None = None
    more: bool = False
    """There are more tasks than were asked for."""
    reasons: Mapping[str, Sequence[WaitReason]] | None = None
    """Why tasks wait, for some of them."""
    heard: Sequence[str] = ()
    """What the lab tells everybody."""


class Lost(NamedTuple):
    """The server does not answer."""

    at: datetime


class Said(NamedTuple):
    """What came of an act."""

    text: str


class Explained(NamedTuple):
    """All about why a task waits."""

    id: str
    lines: Sequence[str]


class Written(NamedTuple):
    """Lines of a task's output: `last` is what stands in the line that is not ended yet."""

    id: str
    lines: Sequence[str]
    last: str
    afresh: bool
    """What was shown before is not part of it."""


class Broken(NamedTuple):
    """A bug of ours: it is shown as every other one."""

    error: Exception


News = Seen | Lost | Said | Explained | Written | Broken


# ---- what is to be done


class Order(NamedTuple):
    """An act of a person. `log` with no id: nobody looks at a log any more."""

    verb: Literal["cancel", "hold", "release", "why", "log"]
    id: str


View = Literal["tasks", "why", "log", "help"]


@dataclass
class Scene:
    """Everything that is on the screen, whatever its size."""

    server: str
    me: str = ""
    """The account that looks, for `a`."""
    nodes: Sequence[NodeView] = ()
    every: Sequence[TaskView] = ()
    more: bool = False
    reasons: dict[str, Sequence[WaitReason]] = field(default_factory=dict)
    heard: Sequence[str] = ()
    """What the lab tells everybody, line by line."""
    lost_at: datetime | None = None
    selected: str = ""
    view: View = "tasks"
    about: str = ""
    """The task that a panel is about."""
    text: list[str] = field(default_factory=list)
    """What the panel shows, line by line."""
    last: str = ""
    back: int = 0
    """Lines from the panel's beginning; of a log from its end."""
    asked: str = ""
    """Shall this one be cancelled?"""
    notice: str = ""
    only_mine: bool = False

    @property
    def tasks(self) -> list[TaskView]:
        """In the order of the screen: what runs first, then the line."""
        shown = [t for t in self.every if not self.only_mine or t.owner == self.me]
        return sorted(shown, key=lambda task: ORDER.get(task.state, 9))

    @property
    def owners(self) -> set[str]:
        return {task.owner for task in self.every}

    def task(self, id: str) -> TaskView | None:
        return next((task for task in self.every if task.id == id), None)

    # ---- news

    def hear(self, news: News) -> None:
        match news:
            case Seen():
                self._see(news)
            case Lost():
                self.lost_at = self.lost_at or news.at
            case Said():
                self.notice = news.text
            case Explained():
                if self.view == "why" and self.about == news.id:
                    self.text = list(news.lines)
            case Written():
                if self.view == "log" and self.about == news.id:
                    self._write(news)
            case Broken():
                raise news.error

    def _see(self, seen: Seen) -> None:
        self.lost_at = None
        self.nodes, self.heard = seen.nodes, seen.heard
        if seen.tasks is not None:
            before = [task.id for task in self.tasks]
            self.every, self.more = seen.tasks, seen.more
            self._keep_selection(before)
        if seen.reasons is not None:
            known = self.reasons | dict(seen.reasons)
            waiting = {task.id for task in self.every if task.state in WAITING}
            self.reasons = {id: why for id, why in known.items() if id in waiting}

    def _keep_selection(self, before: Sequence[str]) -> None:
        """The same task, or else the one that has taken its place."""
        ids = [task.id for task in self.tasks]
        if self.selected in ids:
            return
        at = before.index(self.selected) if self.selected in before else 0
        self.selected = ids[min(at, len(ids) - 1)] if ids else ""

    def _write(self, written: Written) -> None:
        if written.afresh:
            self.text, self.back = [], 0
        before = len(self.text) + bool(self.last)
        self.text.extend(written.lines)
        self.last = written.last
        if self.back:  # whoever reads further up stays where he is
            self.back += len(self.text) + bool(self.last) - before
        del self.text[:-MOST_LOG_LINES]

    # ---- keys

    def press(self, key: str, page: int) -> Sequence[Order] | None:
        """What is to be done; None: leave. `page` is how many lines a page has."""
        self.notice = ""
        if self.asked:
            return self._answer(key)
        if self.view != "tasks":
            return self._press_in_panel(key, page)
        if key == "q":
            return None
        if key in MOVES:
            self._select(MOVES[key](page))
        elif key == "a":
            self._toggle_mine()
        elif key == "?":
            self._open("help", "")
        else:
            return self._act(key)
        return ()

    def _answer(self, key: str) -> Sequence[Order]:
        id, self.asked = self.asked, ""
        if key not in ("y", "Y"):
            self.notice = words("top.not_cancelled", id=id)
            return ()
        return (Order("cancel", id),)

    def _press_in_panel(self, key: str, page: int) -> Sequence[Order]:
        was_log = self.view == "log"
        if key in MOVES:
            step = MOVES[key](page)
            most = max(0, len(self.text) - 1)
            self.back = min(max(self.back + (-step if was_log else step), 0), most)
            return ()
        if key not in ("q", "escape", "enter", "l", "w", "?"):
            return ()
        self._open("tasks", "")
        return (Order("log", ""),) if was_log else ()

    def _act(self, key: str) -> Sequence[Order]:
        task = self.task(self.selected)
        if task is None or key not in ("c", "h", "l", "enter", "w"):
            return ()
        if key == "c":
            self.asked = task.id
            return ()
        if key == "h":
            return self._hold(task)
        if key == "w":
            self._open("why", task.id)
            self.text = [words("top.moment")]
            return (Order("why", task.id),)
        self._open("log", task.id)
        return (Order("log", task.id),)

    def _hold(self, task: TaskView) -> Sequence[Order]:
        if task.state not in WAITING:
            self.notice = words("top.not_waiting", id=task.id)
            return ()
        return (Order("release" if task.state == "HELD" else "hold", task.id),)

    def _open(self, view: View, about: str) -> None:
        self.view, self.about, self.text, self.last, self.back = view, about, [], "", 0

    def _toggle_mine(self) -> None:
        if self.owners <= {self.me} and not self.only_mine:
            self.notice = words("top.only_yours")
            return
        before = [task.id for task in self.tasks]
        self.only_mine = not self.only_mine
        self.notice = words("top.mine" if self.only_mine else "top.everybody")
        self._keep_selection(before)

    def _select(self, step: int) -> None:
        ids = [task.id for task in self.tasks]
        if ids:
            at = ids.index(self.selected) if self.selected in ids else 0
            self.selected = ids[min(max(at + step, 0), len(ids) - 1)]


FAR = 1_000_000
MOVES: dict[str, Callable[[int], int]] = {
    "up": lambda _page: -1, "k": lambda _page: -1, "down": lambda _page: 1, "j": lambda _page: 1,
    "pageup": lambda page: -page, "pagedown": lambda page: page,
    "home": lambda _page: -FAR, "end": lambda _page: FAR,
}  # fmt: skip
"""Keys that move, and by how many lines."""


def panel_title(scene: Scene) -> str:
    """What a panel is about, in a few words."""
    task = scene.task(scene.about)
    named = title(task) if task is not None else ""
    return words(f"top.title_{scene.view}", id=scene.about, title=named).rstrip(": ")
