"""Acknowledged means there, also after kill -9. And the file is sound each time."""

from __future__ import annotations

import random
import signal
import subprocess
import sys

import pytest

from stoker.domain.key import TaskKey
from stoker.store.recorder import open_store

from .conftest import Where

SUBMIT = """
import asyncio, sys
from stoker.store.recorder import open_store
from tests.helpers.builders import a_spec, ended, move, new, placed, started

store = open_store(sys.argv[1])

async def client(number):
    while True:
        (id,) = store.next_ids(1)
        change = new(id, a_spec(gpus=1), placed(f"a{id}", number, number=id))
        await store.record([change])
        print(id, change.task.version, flush=True)
        change = move(change.task, started(f"a{id}"), ended(f"a{id}"))
        await store.record([change])
        print(id, change.task.version, flush=True)

async def main():
    for task, attempt in await store.live():  # left by the life before
        await store.record([move(task, ended(attempt.id))])
    await asyncio.gather(*(client(number) for number in range(8)))

asyncio.run(main())
"""


@pytest.mark.parametrize("seed", range(4))
def test_what_was_acknowledged_survives_kill_9(where: Where, seed: int) -> None:
    lines = random.Random(seed).randrange(50, 600)
    acknowledged: dict[int, int] = {}
    for _ in range(2):  # the second life goes on with the files of the first
        acknowledged |= live_and_die(where, lines)

    store = open_store(where)
    try:
        assert store.check() == []
        last = store.readers.last_seq()
        for id, version in acknowledged.items():
            events = store.readers.events_of(TaskKey(id))
            assert len(events) >= version, f"task {id}"
        assert store.next_ids(1)[0] > max(acknowledged)
        assert last >= sum(acknowledged.values())
    finally:
        store.close()


def live_and_die(path: Where, lines: int) -> dict[int, int]:
    """The highest acknowledged version of each task, from a server killed after `lines` answers."""
    server = subprocess.Popen(
        [sys.executable, "-c", SUBMIT, str(path)],
        env={"PYTHONPATH": ":".join(sys.path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    acknowledged: dict[int, int] = {}
    with server:
        assert server.stdout is not None
        for number, line in enumerate(server.stdout):
            id, version = (int(word) for word in line.split())
            acknowledged[id] = version
            if number == lines:
                server.send_signal(signal.SIGKILL)
                break
        for line in server.stdout:  # what it said before it died
            if line.endswith("\n"):
                id, version = (int(word) for word in line.split())
                acknowledged[id] = version
        assert server.wait(20) == -signal.SIGKILL
    return acknowledged
