"""`client.toml`: the server that this account uses and its token, written by `stoker login`.

It is replaced as a whole, readable by its owner only from the first byte on.
"""

from __future__ import annotations

import json
import os
import secrets

from .find import REMOTE, Server


def save(home: str, server: Server) -> str:
    """Remember this server, and no other; the file's path. Raises OSError."""
    os.makedirs(home, mode=0o700, exist_ok=True)
    path = os.path.join(home, REMOTE)
    said = {"url": server.url, "token": server.token, "ca": server.ca}
    # a JSON text is a TOML text, but for one character that no address has
    lines = [
        f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in said.items() if value
    ]
    beside = f"{path}.{secrets.token_hex(4)}"
    try:
        with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write("".join(lines).encode())
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except BaseException:
        if os.path.exists(beside):
            os.unlink(beside)
        raise
    return path
