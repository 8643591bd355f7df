"""The screen of `stoker top` as lines: a scene, a size and the time in, lines out. Pure.

Everything is fitted by columns, so that wide characters align, and made harmless. What does not
fit is left out from the least important on: cards are folded into one line for each node, then
nodes are counted; tasks are shown page by page, with the selected one always among them.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from stoker.cli.say import words
from stoker.cli.screen import clean, fit, pad, width, wrap
from stoker.cli.shown import gpus, progress, since, state, state_colour, title
from stoker.wire import TaskView

from .columns import Row, laid
from .fleet import fleet_lines
from .model import WAITING, Scene, panel_title
from .painter import Line, Span
from .short import short

FRAME = 3
"""Lines that are always there: the header, the tasks' headings, the bottom line."""
LEAST_TASKS = 3
MOST_HEARD = 3
"""Lines for one thing that everybody is told."""
ENDLESS = 1_000_000
"""Lines of a screen that is a file."""


def render(scene: Scene, columns: int, rows: int, now: datetime) -> list[Line]:
    """At most so many lines of at most so many columns; the last one is the bottom line."""
    if scene.view == "tasks":
        return _overview(scene, columns, rows, now)
    return _panel(scene, columns, rows, now)


def render_all(scene: Scene, columns: int, now: datetime) -> list[Line]:
    """Everything at once, for a file: nothing is selected, and there are no keys."""
    nodes = fleet_lines(scene, columns, ENDLESS, now)
    heading, *tasks = _task_table(scene, scene.tasks, columns, now)
    shown = [heading, *tasks] if tasks else [((words("top.no_tasks"), "dim"),)]
    if scene.more:
        shown.append(((words("top.more", count=len(scene.every)), "dim"),))
    clock = now.astimezone().strftime("%Y-%m-%d %H:%M:%S")
    header: Line = ((_summary(scene), "bold"), (f"  {clock}", ""))
    if sum(width(text) for text, _ in header) > columns:
        header = _header(scene, columns, now)
    return [header, *_heard(scene, columns), *nodes, (), *shown]


def visible(scene: Scene, columns: int, rows: int, now: datetime) -> list[TaskView]:
    """The tasks that are on the screen."""
    room = rows - _frame(scene, columns) - len(_fleet(scene, columns, rows, now))
    return _page(scene, max(room, 1))


def page_size(scene: Scene, columns: int, rows: int, now: datetime) -> int:
    """Lines that PageDown goes on by."""
    if scene.view != "tasks":
        return max(rows - 2, 1)
    return max(rows - _frame(scene, columns) - len(_fleet(scene, columns, rows, now)), 1)


def _overview(scene: Scene, columns: int, rows: int, now: datetime) -> list[Line]:
    nodes = _fleet(scene, columns, rows, now)
    room = max(rows - _frame(scene, columns) - len(nodes), 1)
    heading, *tasks = _task_table(scene, _page(scene, room), columns, now)
    if not tasks:
        tasks = [((f"  {words('top.no_tasks')}", "dim"),)]
    body = [_header(scene, columns, now), *_heard(scene, columns), *nodes, heading, *tasks]
    body += [()] * (rows - 1 - len(body))
    return [*body[: max(rows - 1, 0)], _bottom(scene, columns)]


def _fleet(scene: Scene, columns: int, rows: int, now: datetime) -> list[Line]:
    """Nodes and cards take what the tasks leave, or half of the screen."""
    tasks = max(len(scene.tasks), LEAST_TASKS)
    room = rows - _frame(scene, columns) - 1
    most = max(room - tasks, room // 2)
    found = fleet_lines(scene, columns, most, now)
    return [*found, ()] if found else []


def _page(scene: Scene, room: int) -> list[TaskView]:
    tasks = scene.tasks
    at = next((n for n, task in enumerate(tasks) if task.id == scene.selected), 0)
    first = at // room * room
    return tasks[first : first + room]


# ---- one line each


def _frame(scene: Scene, columns: int) -> int:
    return FRAME + len(_heard(scene, columns))


def _heard(scene: Scene, columns: int) -> list[Line]:
    """What the lab tells everybody; not so much of it that nothing else is seen."""
    return [
        ((fit(part, columns), "yellow"),)
        for line in scene.heard
        for part in wrap(line, columns)[:MOST_HEARD]
    ]


def _header(scene: Scene, columns: int, now: datetime) -> Line:
    """Who serves, how much there is, and what time it is."""
    clock = now.astimezone().strftime("%H:%M:%S")
    left, room = _summary(scene), columns - width(clock) - 1
    if width(left) > room:
        left = f"{words('top.name')}  {_counts(scene)}"
    return (pad(fit(left, room), room), "bold"), (" " + clock, "")


def _summary(scene: Scene) -> str:
    return f"{words('top.name')}  {clean(scene.server)}  {_counts(scene)}"


def _counts(scene: Scene) -> str:
    held = sum(task.state == "HELD" for task in scene.every)
    live = sum(_weight(task, True) for task in scene.every)
    waiting = sum(_weight(task, False) for task in scene.every if task.state != "HELD")
    return words("top.counts", live=live, waiting=waiting, held=held)


def _weight(task: TaskView, live: bool) -> int:
    """An array counts by its elements."""
    if task.array is not None:
        return task.array.live if live else task.array.waiting
    return int((task.state not in WAITING) == live)


def _bottom(scene: Scene, columns: int) -> Line:
    """A question, news, or else the keys."""
    if scene.asked:
        task = scene.task(scene.asked)
        named = title(task) if task is not None else ""
        return ((fit(words("top.ask_cancel", id=scene.asked, title=named), columns), "yellow"),)
    if scene.lost_at is not None:
        at = scene.lost_at.astimezone().strftime("%H:%M:%S")
        return ((fit(words("top.lost", at=at), columns), "red"),)
    if scene.notice:
        return ((fit(scene.notice, columns), "yellow"),)
    keys = words("top.keys" if scene.view == "tasks" else "top.keys_panel")
    return ((fit(keys, columns), "dim"),)


# ---- tasks


def _task_table(scene: Scene, tasks: Sequence[TaskView], columns: int, now: datetime) -> list[Line]:
    names = ["id", "state", "since", "gpus", "task", "where"]
    if len(scene.owners) > 1:
        names.insert(1, "owner")
    heading: Row = [("", ""), *((words(f"top.{name}"), "dim") for name in names)]
    rows = [_task_row(scene, task, names, now) for task in tasks]
    return laid([heading, *rows], columns, gaps=(1,))


def _task_row(scene: Scene, task: TaskView, names: Sequence[str], now: datetime) -> Row:
    is_selected = task.id == scene.selected
    cells: dict[str, Span] = {
        "id": (task.id, "bold" if is_selected else ""),
        "owner": (clean(task.owner), ""),
        "state": (state(task), state_colour(task)),
        "since": (_age(since(task), now), ""),
        "gpus": (gpus(task), ""),
        "task": (title(task), "bold" if is_selected else ""),
        "where": _where(scene, task),
    }
    return [(">" if is_selected else " ", "bold"), *(cells[name] for name in names)]


def _where(scene: Scene, task: TaskView) -> Span:
    """Where it runs, or why it does not."""
    if task.array is not None:
        return progress(task.array), ""
    if task.state in WAITING:
        why = short(scene.reasons.get(task.id, ()))
        return (why or "…"), "dim"
    return clean(task.node or "-"), ""


def _age(moment: datetime, now: datetime) -> str:
    """`42s`, `12m`, `1h30m`, `3d4h`: in a column every blank counts."""
    seconds = max(int((now - moment).total_seconds()), 0)
    if seconds < 60:
        return f"{seconds}s"
    minutes = seconds // 60
    if minutes < 60:
        return f"{minutes}m"
    hours = minutes // 60
    return f"{hours}h{minutes % 60:02}m" if hours < 24 else f"{hours // 24}d{hours % 24}h"


# ---- panels: why, log, help


def _panel(scene: Scene, columns: int, rows: int, now: datetime) -> list[Line]:
    clock = now.astimezone().strftime("%H:%M:%S")
    room = columns - width(clock) - 1
    head: Line = ((pad(fit(panel_title(scene), room), room), "bold"), (" " + clock, ""))
    text = words("top.help").split("\n") if scene.view == "help" else scene.text
    most = max(rows - 2, 0)
    if scene.view == "log":
        shown = _tail([*text, scene.last] if scene.last else text, columns, most, scene.back)
    else:
        wrapped = [piece for line in text for piece in wrap(line, columns)]
        first = min(scene.back, max(len(wrapped) - most, 0))
        shown = wrapped[first : first + most]
    body: list[Line] = [((line, ""),) for line in shown]
    body += [()] * (most - len(body))
    return [head, *body, _bottom(scene, columns)][:rows]


def _tail(text: Sequence[str], columns: int, most: int, back: int) -> list[str]:
    """The last lines that fit, or those before them: a log is read from its end."""
    shown: list[str] = []
    for line in reversed(text[: max(len(text) - back, 1)]):
        shown[:0] = wrap(line, columns)
        if len(shown) >= most:
            break
    return shown[-most:] if most else []
