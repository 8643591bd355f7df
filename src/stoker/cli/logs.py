"""`stoker logs`: a task's output.

Not on a terminal the bytes are exact. On a terminal what it would obey is taken out (harmless.py).
`-f` follows to the task's end, through restarts of the server.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

from stoker.client import CHUNK_BYTES, Refused

from .client import Client
from .command import command as declare
from .command import json_option, option
from .harmless import Harmless
from .options import Whole
from .say import refuse, warn
from .screen import is_terminal
from .task_id import id_argument


@declare("logs")
@id_argument
@option("-f", "--follow", is_flag=True)
@option("--stderr", "error_output", is_flag=True)
@option("--tail", type=Whole())
@json_option
def command(id: str, follow: bool, error_output: bool, tail: int | None, as_json: bool) -> None:
    if tail is not None and tail < 0:
        refuse("usage.not_negative", "tail")
    stream = "stderr" if error_output else "stdout"
    with Client() as client:
        pieces = _pieces(client, id, stream, follow, tail)
        if as_json:
            _print_json(id, stream, pieces)
        else:
            _print(pieces)


def _pieces(
    client: Client, id: str, stream: str, follow: bool, tail: int | None
) -> Iterator[bytes]:
    if not follow:
        yield from client.read_log(id, stream=stream, offset=_start(client, id, stream, tail))
        return
    try:
        offset = _start(client, id, stream, tail)
    except Refused as error:
        if error.code != "no_attempt_yet":
            raise
        warn("logs.waits", id=id)
        offset = 0
    yield from client.follow_log(id, stream=stream, offset=offset)


def _start(client: Client, id: str, stream: str, tail: int | None) -> int:
    """Where the last `tail` lines begin."""
    size = client.log(id, stream=stream, limit=1).size  # refused when there is no output
    if tail is None:
        return 0
    offset, found = size, 0
    while offset > 0 and tail:
        begin = max(0, offset - CHUNK_BYTES)
        part = client.log(id, stream=stream, offset=begin, limit=offset - begin)
        if not part.data:
            break
        data = part.data
        end = len(data) - 1 if part.next == size else len(data)  # the last line's own end
        while (at := data.rfind(b"\n", 0, end)) >= 0:
            found, end = found + 1, at
            if found == tail:
                return part.offset + at + 1
        if part.offset > begin:
            return part.offset  # the middle was not kept: it begins behind the hole
        offset = begin
    return offset


def _print(pieces: Iterator[bytes]) -> None:
    write: Callable[[bytes], object] = sys.stdout.buffer.write
    if not is_terminal():
        for piece in pieces:
            write(piece)
            sys.stdout.buffer.flush()
        return
    harmless = Harmless()
    try:
        for piece in pieces:
            sys.stdout.write(harmless.feed(piece))
            sys.stdout.flush()
    finally:
        sys.stdout.write(harmless.end())
        sys.stdout.flush()


def _print_json(id: str, stream: str, pieces: Iterator[bytes]) -> None:
    """One object per piece as it comes, so that `-f --json` is a stream of lines."""
    import json

    for piece in pieces:
        text = piece.decode("utf-8", "replace")
        print(
            json.dumps({"id": id, "stream": stream, "text": text}, ensure_ascii=False), flush=True
        )
