"""From a submit to the user's process, on an idle server.

The task is a small C program that takes the time as soon as it runs and writes it to a named pipe.
Ours: from just before the request is sent to that time. Yardstick: from just before a bare fork and
exec of the same program. What the pipe costs is in neither.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from bench.client import Connection
from bench.figure import Bar, Figure, Line, Measure, Reading, in_turn, scaled
from bench.server import health, running, wait_for

SAMPLES = 40
LINE = Line("start", "ms", Bar(8, 4, "at most"), "fork + exec of the same program")
END_S = 30.0
IDLE_S = 0.02

SOURCE = r"""
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long long now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

/* report PIPE: write the time to PIPE. report PIPE COUNT: start it so often, print what it took. */
int main(int argc, char **argv) {
    long long began = now_ns(), reported;
    if (argc == 2) {
        int pipe = open(argv[1], O_WRONLY);
        return write(pipe, &began, sizeof began) == sizeof began ? 0 : 1;
    }
    int pipe = open(argv[1], O_RDWR);
    for (int left = atoi(argv[2]); left > 0; left--) {
        began = now_ns();
        pid_t child = fork();
        if (child == 0) {
            execl(argv[0], argv[0], argv[1], (char *)NULL);
            _exit(127);
        }
        if (child < 0 || read(pipe, &reported, sizeof reported) != sizeof reported) return 1;
        waitpid(child, NULL, 0);
        printf("%lld\n", reported - began);
    }
    return 0;
}
"""


@contextlib.contextmanager
def ready(folder: Path, scale: float) -> Iterator[Measure]:
    count = scaled(SAMPLES, scale, 10)
    program = _compile(folder)
    pipe = folder / "times"
    os.mkfifo(pipe)
    # Opened for both, so that it never ends and opening never waits.
    times = os.open(pipe, os.O_RDWR)
    try:
        with running(folder, 4) as server:
            command = [str(program), str(pipe)]
            spec = {"command": command, "workdir": str(server.work), "gpus": 1}

            def measure() -> tuple[Reading, ...]:
                with server.connect() as client:
                    return (
                        in_turn(
                            lambda: _submit(client, spec, times, count),
                            lambda: _fork(program, pipe, count),
                        ),
                    )

            yield measure
    finally:
        os.close(times)


def _submit(client: Connection, spec: dict[str, object], times: int, count: int) -> float:
    request = client.request("POST", "/api/v1/tasks", spec)
    took: list[int] = []
    for _ in range(count):
        begun = time.monotonic_ns()
        client.exchange(request)
        took.append(_reported(times) - begun)
        wait_for(lambda: health(client).live == 0, END_S, "the task is over")
        time.sleep(IDLE_S)  # its log is copied and forgotten: the next one finds an idle server
    return statistics.median(took) / 1e6


def _fork(program: Path, pipe: Path, count: int) -> float:
    """From a process as small as can be: forking a large one takes longer."""
    done = subprocess.run(
        [program, pipe, str(count)], capture_output=True, text=True, timeout=END_S, check=True
    )
    return statistics.median(int(line) for line in done.stdout.split()) / 1e6


def _reported(times: int) -> int:
    if not select.select([times], [], [], END_S)[0]:
        raise TimeoutError(f"no process reported within {END_S:.0f} s")
    return int.from_bytes(os.read(times, 8), sys.byteorder)


def _compile(folder: Path) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise FileNotFoundError("this figure needs a C compiler (cc)")
    source, program = folder / "report.c", folder / "report"
    source.write_text(SOURCE)
    subprocess.run([compiler, "-O2", "-o", program, source], check=True, timeout=60)
    return program


FIGURE = Figure("start", "submit over HTTP until the user's process runs", (LINE,), ready)
