"""Seals what must be kept but not be read in the records: AES-GCM, with a key beside them.

The key is a private file in the state folder, made when it is first needed; it is in no database
and no backup. A sealed text names the key it was sealed with and opens only as what it was sealed
for: nobody can move it to another entry. Whoever wants another key puts it into the first line of
the file: it seals from then on, and those below still open what is older.
"""

from __future__ import annotations

import base64
import binascii
import os
import secrets
from contextlib import suppress
from pathlib import Path

from stoker.domain.errors import AppError, Conflict

FORM = "1"
NONCE_BYTES = 12
KEY_BYTES = 32


class Seal:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._keys: dict[str, bytes] = {}

    def seal(self, text: str, about: str) -> str:
        """`text`, to be opened as `about` only."""
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 - heavy

        if not self._read():
            self._make()
        name, key = next(iter(self._keys.items()))
        nonce = secrets.token_bytes(NONCE_BYTES)
        sealed = AESGCM(key).encrypt(nonce, text.encode(), about.encode())
        return f"{FORM}.{name}.{base64.urlsafe_b64encode(nonce + sealed).decode()}"

    def open(self, sealed: str, about: str) -> str:
        """What was sealed as `about`. Conflict (`key_lost`) when the key is not here, or another."""
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415

        form, _, rest = sealed.partition(".")
        name, _, coded = rest.partition(".")
        key = self._keys.get(name) or self._read().get(name)
        if form != FORM or key is None:
            raise Conflict("key_lost")
        try:
            data = base64.urlsafe_b64decode(coded)
            opened = AESGCM(key).decrypt(data[:NONCE_BYTES], data[NONCE_BYTES:], about.encode())
        except (InvalidTag, ValueError):
            raise Conflict("key_lost") from None
        return opened.decode()

    def knows(self, sealed: str) -> bool:
        """Whether its key is here."""
        name = sealed.partition(".")[2].partition(".")[0]
        return name in self._keys or name in self._read()

    def _read(self) -> dict[str, bytes]:
        try:
            if self._path.stat().st_mode & 0o077:
                raise AppError("key_not_private", path=str(self._path))
            lines = self._path.read_text("ascii").splitlines()
        except FileNotFoundError:
            self._keys = {}
            return self._keys
        self._keys = dict(_key(line, self._path) for line in lines if line.strip())
        return self._keys

    def _make(self) -> None:
        """Whole or not at all, and only where there is none."""
        line = (
            f"{secrets.token_hex(4)} {base64.b64encode(secrets.token_bytes(KEY_BYTES)).decode()}\n"
        )
        beside = self._path.with_name(f".{self._path.name}-{os.getpid()}")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        with open(os.open(beside, flags, 0o600), "w") as file:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
        try:
            with suppress(FileExistsError):
                os.link(beside, self._path)
        finally:
            beside.unlink()
        folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)  # what is sealed with it must not outlive it
        finally:
            os.close(folder)
        self._read()


def _key(line: str, path: Path) -> tuple[str, bytes]:
    name, _, coded = line.strip().partition(" ")
    try:
        key = base64.b64decode(coded, validate=True)
    except binascii.Error:
        key = b""
    if not name or len(key) != KEY_BYTES:
        raise AppError("key_unreadable", path=str(path))
    return name, key
