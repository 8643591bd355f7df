"""`attach`: joins stdin and stdout to the runner's socket. All that ssh ever runs on a node.

Adds and removes nothing. It waits a little for a runner that is just starting; without one it
says so and exits with 3, so that the caller can start one.
"""

from __future__ import annotations

import os
import select
import socket
import sys
import time

from .layout import SOCKET, socket_path

NO_RUNNER = 3
_CHUNK = 1 << 16
_RETRY_S = 0.05


def connect(spool: str, wait_s: float = 0.0) -> socket.socket:
    """A connection to the runner of a spool. Raises OSError when there is none."""
    until = time.monotonic() + wait_s
    while True:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            dir_fd = os.open(spool, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                sock.connect(socket_path(dir_fd, SOCKET))
            finally:
                os.close(dir_fd)
        except OSError:
            sock.close()
            if time.monotonic() >= until:
                raise
            time.sleep(_RETRY_S)
        else:
            return sock


def attach(spool: str, wait_s: float) -> int:
    """Until either side closes."""
    try:
        sock = connect(spool, wait_s)
    except OSError as error:
        sys.stderr.write(f"no runner in {spool}: {error.strerror}\n")
        return NO_RUNNER
    with sock:
        while True:
            ready, _, _ = select.select([0, sock.fileno()], [], [])
            if sock.fileno() in ready:
                data = sock.recv(_CHUNK)
                if not data:
                    return 0
                _write_all(data)
            if 0 in ready:
                data = os.read(0, _CHUNK)
                if not data:
                    return 0
                sock.sendall(data)


def _write_all(data: bytes) -> None:
    while data:
        data = data[os.write(1, data) :]
