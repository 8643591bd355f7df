"""Starts servers quickly: everything is imported once, each server is a fork of this process.

Reads lines on stdin: a JSON object with `argv`, `environ` and `log`. For each it forks a process
that becomes exactly what `python -m stoker ARGV...` would be, and answers with its pid. Servers
that die are reaped at once; when stdin ends, this process leaves and servers go on.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import traceback
from typing import NoReturn

import psycopg  # noqa: F401 - imported by the server only for a URL

import stoker.bootstrap
import stoker.cli.up  # noqa: F401 - lazily loaded by the command line
from stoker.__main__ import main


def run() -> None:
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    # Not `for line in stdin`: a fork must not inherit lines that were read ahead.
    while line := _read_line():
        order = json.loads(line)
        pid = os.fork()
        if pid == 0:
            _become_server(order["argv"], order["environ"], order["log"])
        os.write(1, b"%d\n" % pid)


def _read_line() -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            return b""
        line += byte
    return line


def _become_server(argv: list[str], environ: dict[str, str], log: str) -> NoReturn:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for source, target in ((null, 0), (out, 1), (out, 2)):
        os.dup2(source, target)
    os.environ.clear()
    os.environ.update(environ)
    sys.argv = ["stoker", *argv]
    try:
        main()
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    os._exit(70)  # `main` does not return


if __name__ == "__main__":
    run()
