"""Be told, as a person sets it up: the command line, a real task, a real receiver, a server that dies."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from stoker.lab.book import Book, Put
from stoker.store.recorder import open_store
from tests.e2e.conftest import Stoker, until
from tests.helpers.receivers import Receiver, receiving

TOKEN = "planted-token-0815"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


@pytest.fixture
def stoker(own: Stoker) -> Stoker:
    """A lab that lets notices go to this machine."""
    own.home.mkdir(mode=0o700)
    store = open_store(own.home / "stoker.db")
    try:
        asyncio.run(Book(store).amend([Put("rule", "notice_hosts", "127.0.0.1")]))
    finally:
        store.close()
    own.up()
    return own


def say(stoker: Stoker, line: str, *args: str) -> str:
    """A command that is given something secret on its standard input."""
    done = subprocess.run(
        stoker.command(*args), env=stoker.env, cwd=stoker.work, input=line, text=True,
        capture_output=True, timeout=60, check=True,
    )  # fmt: skip
    return done.stdout


def lately(stoker: Stoker) -> list[Any]:
    found: list[Any] = json.loads(stoker("notify", "ls", "--json").stdout)["notices"]
    return found


def test_it_is_set_up_tried_and_told(stoker: Stoker, receiver: Receiver) -> None:
    said = say(stoker, f"{receiver.url}/{TOKEN}\n", "notify", "set", "hook")
    assert "json, 127.0.0.1" in said
    assert "finished, waiting, limit" in said
    assert "Sent over hook" in stoker("notify", "test").stdout
    stoker("notify", "on", "started")
    stoker("notify", "off", "waiting")

    id = stoker.submit(
        "--name", "训练", "--gpus", "1", "-c", "echo loss 0.1; echo broken >&2; exit 7"
    )
    until(lambda: len(receiver.hits) == 3)

    told = {hit.json["kind"]: hit.json for hit in receiver.hits}
    assert set(told) == {"test", "started", "failed"}
    assert told["failed"]["title"] == f"[Stoker] task {id} (训练): failed"
    assert "exit code 7" in told["failed"]["message"]
    assert "loss 0.1\nbroken" in told["failed"]["message"]
    until(lambda: [one["state"] for one in lately(stoker)] == ["sent"] * 3)
    shown = stoker("notify", "ls").stdout
    assert "hook" in shown
    assert "started" in shown
    assert "There is no channel nope" in stoker("notify", "rm", "nope", code=2).stderr
    assert "nothing was given" in stoker("notify", "set", "hook", code=2).stderr
    stoker("notify", "rm", "hook")
    assert "Nobody can tell you anything yet" in stoker("notify", "ls").stdout


def test_a_server_that_dies_tells_nothing_twice_and_goes_on(
    stoker: Stoker, receiver: Receiver
) -> None:
    say(stoker, f"{receiver.url}/{TOKEN}\n", "notify", "set", "hook")
    receiver.gate.clear()
    first = stoker.submit("--", "true")
    assert receiver.arrived.acquire(timeout=30), "it is on its way"
    stoker.kill_server()
    receiver.gate.set()
    stoker.up()

    second = stoker.submit("--", "false")
    until(lambda: any(hit.json["task"] == second for hit in receiver.hits))

    assert [hit.json["task"] for hit in receiver.hits] == [first, second]
    _no_secret_is_kept_in_clear(stoker)


def _no_secret_is_kept_in_clear(stoker: Stoker) -> None:
    stoker("backup", "backup.tar")
    archive = (stoker.work / "backup.tar").read_bytes()
    key = (stoker.home / "secret.key").read_bytes().split()[1]
    assert b"/hook" in archive, "the channel is in the backup"
    assert TOKEN.encode() not in archive
    assert key not in archive
    for path in stoker.home.rglob("*"):
        if path.is_file():
            assert TOKEN.encode() not in path.read_bytes(), path
