"""Puts `stoker top` together: draw, wait for a key or for news, and again."""

from __future__ import annotations

import os
import queue
import sys
import time
from datetime import UTC, datetime

from .feed import Feed
from .keys import Keys
from .lines import page_size, render, visible
from .model import News, Scene
from .painter import Painter

ESCAPE_S = 0.1
"""A sequence goes on within this time, or it was the Escape key."""


def run(scene: Scene, every_s: float) -> None:
    """Until somebody leaves. The terminal is then as it was."""
    if sys.platform == "win32":
        from .console import Terminal
    else:
        from .terminal import Terminal

    inbox: queue.SimpleQueue[News] = queue.SimpleQueue()
    painter, keys = Painter(coloured=not os.environ.get("NO_COLOR")), Keys()
    with Terminal() as terminal:

        def deliver(news: News) -> None:
            inbox.put(news)
            terminal.wake()

        feed = Feed(deliver, every_s)
        feed.watch(visible(scene, *terminal.size(), datetime.now(UTC)))
        feed.start()
        while True:
            _hear_all(scene, inbox)
            columns, rows = terminal.size()
            if terminal.is_stale:
                terminal.is_stale = False
                painter.forget()
            now = datetime.now(UTC)
            terminal.write(painter.paint(render(scene, columns, rows, now), columns, rows))
            feed.watch(visible(scene, columns, rows, now))
            try:
                data = terminal.read(ESCAPE_S if keys.is_waiting else _until_next(every_s))
            except EOFError:
                return  # nobody is there any more
            pressed = keys.feed(data) if data or not keys.is_waiting else keys.flush()
            for key in pressed:
                orders = scene.press(key, page_size(scene, columns, rows, now))
                if orders is None:
                    return
                for order in orders:
                    feed.order(order)


def _hear_all(scene: Scene, inbox: queue.SimpleQueue[News]) -> None:
    while True:
        try:
            scene.hear(inbox.get_nowait())
        except queue.Empty:
            return


def _until_next(every_s: float) -> float:
    """The clock is drawn at round moments, so that it does not stutter."""
    return every_s - time.time() % every_s
