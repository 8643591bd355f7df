"""The yardstick of `list`: an ASGI application that knows its answers, on the same HTTP server.

`python bare_asgi.py FILE` reads `{"path?query": "body"}` and serves it; the first line it
prints is its port. It ends when its standard input does.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any

import uvicorn

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


def application(bodies: dict[bytes, bytes]) -> Callable[..., Awaitable[None]]:
    async def app(scope: MutableMapping[str, Any], _receive: object, send: Send) -> None:
        body = bodies[scope["raw_path"] + b"?" + scope["query_string"]]
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(body)),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return app


async def _serve(file: str) -> None:
    texts: dict[str, str] = json.loads(await asyncio.to_thread(Path(file).read_text))
    bodies = {path.encode(): body.encode() for path, body in texts.items()}
    # Named TCP, or asyncio leaves Nagle's delay on: 40 ms per answer.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    print(listener.getsockname()[1], flush=True)
    server = uvicorn.Server(
        uvicorn.Config(
            application(bodies),
            http="httptools",
            loop="asyncio",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
        )
    )

    def end() -> None:
        server.should_exit = True

    asyncio.get_running_loop().add_reader(sys.stdin, end)
    await server.serve(sockets=[listener])


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1]))
