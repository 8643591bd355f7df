"""Records of every kind, made by the real flow, and how two databases are compared."""

from __future__ import annotations

from pathlib import Path

from stoker.domain.key import TaskKey
from stoker.domain.person import Person
from stoker.flow import nodes, queue
from stoker.flow.remove import delete
from stoker.lab.book import Put
from stoker.store.base import Act
from stoker.store.copying import Sum, sums
from stoker.store.database import as_url, open_engine
from tests.helpers.flows import attempt_of, end, engine_of, one, running_flow
from tests.integration.flow.conftest import waiting_engine


async def fill(folder: Path) -> None:
    """Waiting, held, running, finished and deleted tasks, an array under way, a drained node, a person."""
    async with running_flow(folder, waiting_engine()) as flow:
        await one(flow, name="finished 完成", env={"KEY": 'quotes " and \\ and 你好'})
        await end(flow, TaskKey(1))
        await one(flow, gpus=2, name="runs")
        await attempt_of(flow, TaskKey(2))
        await one(flow, array="0-9%2", name="array")
        await attempt_of(flow, TaskKey(3, 0))
        engine_of(flow).finish(await attempt_of(flow, TaskKey(3, 0)), 3)
        await attempt_of(flow, TaskKey(3, 2))
        await one(flow, hold=True)
        await one(flow, gpus=4, after=("2:ok",))
        await one(flow, command="echo shell; echo line")
        await one(flow, hold=True)
        await delete(flow, TaskKey(7), "ana")
        await queue.hold(flow, TaskKey(3, 7), by="ana")
        await nodes.drain(flow, "node-a", "new driver", by="ana")
        act = Act(at=flow.clock.now(), who="ana", act="person.add", on="person bo 波")
        await flow.book.amend([Put("person", "bo", Person(name="bo"), "hash")], [act])
        await flow.drain()


def held_by(where: str | Path) -> dict[str, Sum]:
    """What every table of a database holds."""
    with open_engine(as_url(where), readonly=True).connect() as connection, connection.begin():
        return sums(connection)
