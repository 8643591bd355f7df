"""One server for one database, whatever happens to it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from stoker.domain.errors import StoreError
from stoker.store.recorder import SqlStore, open_store

HOLD = """
import sys, time
from stoker.store.recorder import open_store
store = open_store(sys.argv[1])
print("open", flush=True)
time.sleep(600)
"""


def test_a_second_server_is_told_who_serves(store: SqlStore, store_path: Path) -> None:
    with pytest.raises(StoreError) as refused:
        open_store(store_path)

    assert (refused.value.code, refused.value.values) == (
        "already_served",
        {"pid": str(os.getpid())},
    )
    assert store.check() == []


def test_after_close_another_may_serve(store: SqlStore, store_path: Path) -> None:
    store.close()
    store.close()

    open_store(store_path).close()


def test_a_killed_server_leaves_no_lock(store_path: Path) -> None:
    server = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(store_path)],
        env={"PYTHONPATH": ":".join(sys.path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    with server:
        assert server.stdout is not None
        assert server.stdout.readline() == "open\n"
        with pytest.raises(StoreError) as refused:
            open_store(store_path)
        assert refused.value.values == {"pid": str(server.pid)}
        server.send_signal(signal.SIGKILL)
        server.wait(20)

    open_store(store_path).close()
