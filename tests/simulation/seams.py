"""Where the simulation takes hold of the product: nowhere else is anything of it replaced.

Plans are looked at when they are made, labelled points may kill, what is logged as an error is a
finding, and the two places that ask the system's clock are given ours.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from typing import Any
from unittest import mock

from typing_extensions import override

import stoker.engines.fleet.link as fleet_link
import stoker.flow.place as flow_place
import stoker.flow.submit as flow_submit
from stoker.flow.context import Clock
from stoker.runner import killpoint

from .planning import Audit
from .server import Killed
from .spool import seams as spool_seams


@contextmanager
def in_place(
    *,
    audit: Audit,
    at_point: Callable[[str], bool],
    clock: Clock,
    node_time: Callable[[], float],
    on_error: Callable[[str], None],
) -> Iterator[None]:
    """For as long as a run lasts."""
    plan: Any = vars(flow_place)["plan"]
    place_one: Any = vars(flow_submit)["place_one"]

    def planned(view: Any, now: datetime) -> Any:
        made = plan(view, now)
        audit.plan(view, now, made)
        return made

    def placed(view: Any, waiting: Any, now: datetime) -> Any:
        where = place_one(view, waiting, now)
        if where is not None:
            audit.newcomer(view, waiting, now, where)
        return where

    def reach(point: str) -> None:
        if at_point(point):
            raise Killed

    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(flow_place, "plan", planned))
        stack.enter_context(mock.patch.object(flow_submit, "place_one", placed))
        stack.enter_context(mock.patch.object(killpoint, "reach", reach))
        stack.enter_context(mock.patch.object(fleet_link, "_now", clock.now))
        stack.enter_context(spool_seams(node_time))
        stack.enter_context(_listening(on_error))
        yield


class _Listener(logging.Handler):
    def __init__(self, tell: Callable[[str], None]) -> None:
        super().__init__(logging.ERROR)
        self._tell = tell

    @override
    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        self._tell(f"{record.getMessage()} {error!r}" if error else record.getMessage())


@contextmanager
def _listening(tell: Callable[[str], None]) -> Iterator[None]:
    """What the product logs as an error is told; everything else is not even formatted."""
    logger = logging.getLogger("stoker")
    handler = _Listener(tell)
    level, propagate = logger.level, logger.propagate
    logger.setLevel(logging.ERROR)
    logger.propagate = False
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagate
