"""One server for one database, whatever happens to it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from stoker.domain.errors import StoreError
from stoker.store.recorder import SqlStore, open_store
from stoker.text import message

from .conftest import Where

HOLD = """
import sys, time
from stoker.store.recorder import open_store
store = open_store(sys.argv[1])
print("open", flush=True)
time.sleep(600)
"""


def told(error: StoreError) -> str:
    return message(error.code, error.values, "en")


def test_a_second_server_is_told_who_serves(store: SqlStore, where: Where) -> None:
    with pytest.raises(StoreError) as refused:
        open_store(where)

    assert refused.value.code == "already_served"
    assert str(os.getpid()) in told(refused.value)
    assert store.check() == []


def test_after_close_another_may_serve(store: SqlStore, where: Where) -> None:
    store.close()
    store.close()

    open_store(where).close()


def test_a_killed_server_leaves_no_lock(where: Where) -> None:
    server = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(where)],
        env={"PYTHONPATH": ":".join(sys.path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    with server:
        assert server.stdout is not None
        assert server.stdout.readline() == "open\n"
        with pytest.raises(StoreError) as refused:
            open_store(where)
        assert str(server.pid) in told(refused.value)
        server.send_signal(signal.SIGKILL)
        server.wait(20)

    open_store(where).close()
