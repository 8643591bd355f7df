"""The runner of this machine: a process of its own that outlives the server."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from stoker.runner import protocol

from .link import LINE_LIMIT

START_S = 15.0
POLL_S = 0.02
NOT_FOR_THE_RUNNER = ("STOKER_TOKEN", "STOKER_URL", "STOKER_HOME", "STOKER_DATABASE")


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
        self.environ = {k: v for k, v in environ.items() if k not in NOT_FOR_THE_RUNNER}
        self._pid: int | None = None

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        try:
            return await self._open()
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
                return await self._open()
            except (FileNotFoundError, ConnectionRefusedError):
                code = self._ended()
                if code:
                    raise OSError(f"the runner ended with code {code}, see {self._log}") from None
                if loop.time() > deadline:
                    raise
                await asyncio.sleep(POLL_S)

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        # A socket's path is limited to 108 bytes; the folder's own file descriptor is not.
        folder = os.open(self.spool, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            path = f"/proc/self/fd/{folder}/runner.sock"
            return await asyncio.open_unix_connection(path, limit=LINE_LIMIT)
        finally:
            os.close(folder)

    @property
    def _log(self) -> Path:
        return self.spool.parent / "runner.log"

    def _start(self, *extra: str) -> None:
        """A session of its own, nothing of ours but its log: it goes on when we do not."""
        self._ended()
        command = [self.python, "-I", "-S", str(self.program), "serve", "--spool", str(self.spool)]
        command += ["--node", self.node, "--simulate-gpus", str(self.simulate_gpus), *extra]
        self.spool.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        out = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            self._pid = os.posix_spawn(
                self.python,
                command,
                self.environ,
                setsid=True,
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_DUP2, out, 1),
                    (os.POSIX_SPAWN_DUP2, out, 2),
                ],
            )
        finally:
            os.close(out)

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
