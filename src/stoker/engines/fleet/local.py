"""The runner of this machine: a process of its own that outlives the server. Ours, or root's."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from stoker.runner import protocol

from .link import LINE_LIMIT
from .spawn import for_runner, log_of, spawn

START_S = 15.0
POLL_S = 0.02
REPLACED_S = 0.2


class LocalRunner:
    """Reaches the runner of `spool`, and starts `program` when there is none."""

    def __init__(
        self,
        *,
        spool: Path,
        program: Path,
        build: str,
        node: str,
        simulate_gpus: int,
        environ: Mapping[str, str],
        python: str = sys.executable,
    ) -> None:
        self.spool, self.program, self.build = spool, program, build
        self.node, self.simulate_gpus, self.python = node, simulate_gpus, python
        self.environ = for_runner(environ)
        self._pid: int | None = None

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        try:
            return await _open(self.spool)
        except (FileNotFoundError, ConnectionRefusedError):
            self._start()
        return await self._open_when_ready()

    async def replace(self) -> None:
        self._start("--replace")
        await asyncio.sleep(POLL_S)

    def accepts(self, hello: protocol.Hello) -> bool:
        simulated = sum(gpu.simulated for gpu in hello.gpus)
        return hello.build == self.build and simulated == self.simulate_gpus

    async def _open_when_ready(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + START_S
        while True:
            try:
                return await _open(self.spool)
            except (FileNotFoundError, ConnectionRefusedError):
                code = self._ended()
                if code:
                    raise OSError(
                        f"the runner ended with code {code}, see {log_of(self.spool)}"
                    ) from None
                if loop.time() > deadline:
                    raise
                await asyncio.sleep(POLL_S)

    def _start(self, *extra: str) -> None:
        self._ended()
        arguments = ["--node", self.node, "--simulate-gpus", str(self.simulate_gpus), *extra]
        self._pid = spawn(self.program, self.spool, arguments, self.environ, self.python)

    def _ended(self) -> int | None:
        """The exit code of the runner we started, once it has one."""
        if self._pid is not None:
            try:
                pid, status = os.waitpid(self._pid, os.WNOHANG)
            except ChildProcessError:
                pid, status = self._pid, 0
            if pid:
                self._pid = None
                return os.waitstatus_to_exitcode(status)
        return None


class RootRunner:
    """Reaches root's runner of `spool`. Root starts it and sees to it that it is the right one."""

    def __init__(self, *, spool: Path, build: str, simulate_gpus: int) -> None:
        self.spool, self.build, self.simulate_gpus = spool, build, simulate_gpus

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await _open(self.spool)

    async def replace(self) -> None:
        """Not ours to do; it happens in a moment."""
        await asyncio.sleep(REPLACED_S)

    def accepts(self, hello: protocol.Hello) -> bool:
        simulated = sum(gpu.simulated for gpu in hello.gpus)
        return hello.root and hello.build == self.build and simulated == self.simulate_gpus


async def _open(spool: Path) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    # A socket's path is limited to 108 bytes; the folder's own file descriptor is not.
    folder = os.open(spool, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        path = f"/proc/self/fd/{folder}/runner.sock"
        return await asyncio.open_unix_connection(path, limit=LINE_LIMIT)
    finally:
        os.close(folder)
