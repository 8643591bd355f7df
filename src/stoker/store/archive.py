"""A backup as one file: a plain tar whose last members say what must be in it.

Uncompressed on purpose: every member can be found and checked by seeking, `tar tf` lists it, and
whoever wants it smaller compresses it as a whole. Written beside its name, synced, then renamed.
Reading trusts nothing: only plain files under names that we write, each one named by the manifest
with its length and SHA-256, nothing twice, nothing else. There is no extraction by the names in
the file: callers ask for a member and say where it goes.
Outputs may have holes of many GiB: only what they hold is stored, and the manifest says where.
"""

from __future__ import annotations

import hashlib
import os
import re
import tarfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import BinaryIO

import msgspec
from msgspec import Struct

from stoker.domain.errors import StoreError
from stoker.runner import killpoint

from .durably import sync_folder

FORMAT = 1
DATABASE, CONFIG, MANIFEST, SEAL = "stoker.db", "config.toml", "manifest.json", "manifest.sha256"
LOG_NAME = re.compile(r"logs/[0-9a-f]{2}/[0-9a-f]{32}\.[0-9]{1,9}\.(stdout|stderr)")
MOST_MANIFEST = 1 << 30
_BLOCK = 512
_CHUNK = 1 << 20

Advance = Callable[[int], None]
"""Told how many more bytes are done."""


class Member(Struct, frozen=True):
    """One file of a backup."""

    name: str
    bytes: int
    """Stored."""
    sha256: str
    """Of what is stored."""
    size: int
    """Of the file; more than is stored when it has holes."""
    pieces: tuple[tuple[int, int], ...] = ()
    """Where what is stored belongs, as (offset, length); () = one piece from the beginning."""


class Manifest(Struct, frozen=True, kw_only=True):
    """What a backup holds, and of what."""

    format: int
    stoker: str
    """The version that wrote it."""
    schema: str
    made_at: str
    host: str
    database: str
    """Which records these are."""
    epoch: int
    records: dict[str, int]
    """How many rows each table has."""
    files: tuple[Member, ...]


class Writer:
    """A backup in the making, beside `path`."""

    def __init__(self, path: Path) -> None:
        self._path, self._beside = path, path.with_name(path.name + ".part")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        self._file: BinaryIO = open(os.open(self._beside, flags, 0o600), "wb")  # noqa: SIM115
        os.fchmod(self._file.fileno(), 0o600)
        self.files: list[Member] = []

    def add_file(self, name: str, source: BinaryIO, advance: Advance) -> None:
        """What this file holds now. Raises OSError when it shrinks meanwhile."""
        size = os.fstat(source.fileno()).st_size
        pieces = tuple(_pieces(source.fileno(), size))
        stored = sum(length for _, length in pieces)
        self._head(name, stored)
        digest = hashlib.sha256()
        for offset, length in pieces:
            for data in _read(source, offset, length):
                digest.update(data)
                self._file.write(data)
                advance(len(data))
        self._fill(stored)
        whole = pieces == ((0, size),)
        self.files.append(Member(name, stored, digest.hexdigest(), size, () if whole else pieces))

    def add_bytes(self, name: str, data: bytes) -> None:
        self._put(name, data)
        self.files.append(Member(name, len(data), hashlib.sha256(data).hexdigest(), len(data)))

    def keep(self, manifest: Manifest, advance: Advance) -> None:
        """It is all there: read it once more, then give it its name. Durable when it returns."""
        raw = msgspec.json.format(msgspec.json.encode(manifest))
        self._put(MANIFEST, raw)
        self._put(SEAL, _seal(raw))
        self._file.write(bytes(2 * _BLOCK))
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        with closing(Reader(self._beside)) as written:
            written.verify(advance)
        killpoint.reach(killpoint.ARCHIVED)
        os.replace(self._beside, self._path)
        sync_folder(self._path.parent)

    def drop(self) -> None:
        """Leave nothing behind. Harmless after `keep`."""
        self._file.close()
        self._beside.unlink(missing_ok=True)

    def _put(self, name: str, data: bytes) -> None:
        self._head(name, len(data))
        self._file.write(data)
        self._fill(len(data))

    def _head(self, name: str, size: int) -> None:
        head = tarfile.TarInfo(name)
        head.size, head.mode, head.mtime = size, 0o600, int(time.time())
        self._file.write(head.tobuf(tarfile.GNU_FORMAT))

    def _fill(self, size: int) -> None:
        self._file.write(bytes(-size % _BLOCK))


class Reader:
    """An existing backup. Raises StoreError `backup_damaged`, `backup_newer` or `not_a_backup`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO = path.open("rb")
        try:
            self._places = self._scan()
            self.manifest = self._manifest()
            self._compare()
        except BaseException:
            self._file.close()
            raise

    def close(self) -> None:
        self._file.close()

    @property
    def stored(self) -> int:
        """Bytes of all files."""
        return sum(member.bytes for member in self.manifest.files)

    def verify(self, advance: Advance) -> None:
        """Read everything and compare it with the manifest."""
        for member in self.manifest.files:
            digest = hashlib.sha256()
            for data in self._data(member):
                digest.update(data)
                advance(len(data))
            if digest.hexdigest() != member.sha256:
                raise self._damaged(f"{member.name}: wrong SHA-256")

    def put(self, member: Member, fd: int, advance: Advance) -> None:
        """Write a member into an empty file, holes included; compared once more."""
        digest = hashlib.sha256()
        places = iter(member.pieces or ((0, member.bytes),))
        offset, left = next(places, (0, 0))
        for data in self._data(member):
            digest.update(data)
            advance(len(data))
            rest = memoryview(data)
            while rest:
                if not left:
                    offset, left = next(places)
                written = os.pwrite(fd, rest[:left], offset)
                offset, left, rest = offset + written, left - written, rest[written:]
        if digest.hexdigest() != member.sha256:
            raise self._damaged(f"{member.name}: wrong SHA-256")
        os.ftruncate(fd, member.size)

    def _data(self, member: Member) -> Iterator[bytes]:
        offset, size = self._places[member.name]
        return _read(self._file, offset, size)

    def _scan(self) -> dict[str, tuple[int, int]]:
        """Where each member is."""
        places: dict[str, tuple[int, int]] = {}
        size = os.fstat(self._file.fileno()).st_size
        at = 0
        while True:
            head = os.pread(self._file.fileno(), _BLOCK, at)
            if len(head) < _BLOCK:
                raise self._damaged("it ends too early") if places else self._not_ours()
            if not any(head):
                return places
            name, length = self._header(head, is_first=not places)
            at += _BLOCK
            if name in places or at + length > size:
                raise self._damaged(f"{name}: twice, or cut short")
            places[name] = (at, length)
            at += length + -length % _BLOCK

    def _header(self, head: bytes, *, is_first: bool) -> tuple[str, int]:
        try:
            found = tarfile.TarInfo.frombuf(head, "utf-8", "strict")
        except (tarfile.HeaderError, ValueError):
            raise (self._not_ours() if is_first else self._damaged("a broken header")) from None
        if found.type != tarfile.REGTYPE or found.linkname or not _is_ours(found.name):
            raise self._damaged(f"{found.name!r} does not belong there")
        if found.size < 0:
            raise self._damaged("a broken header")
        return found.name, found.size

    def _manifest(self) -> Manifest:
        raw, seal = (self._whole(name) for name in (MANIFEST, SEAL))
        if seal != _seal(raw):
            raise self._damaged(f"{MANIFEST}: wrong SHA-256")
        try:
            format = msgspec.json.decode(raw, type=_Format).format
            if format > FORMAT:
                raise StoreError("backup_newer", path=str(self._path), found=format, known=FORMAT)
            return msgspec.json.decode(raw, type=Manifest)
        except msgspec.MsgspecError as error:
            raise self._damaged(f"{MANIFEST}: {error}") from error

    def _whole(self, name: str) -> bytes:
        offset, size = self._places.get(name, (0, MOST_MANIFEST + 1))
        if size > MOST_MANIFEST:
            raise self._damaged(f"{name} is missing")
        return b"".join(_read(self._file, offset, size))

    def _compare(self) -> None:
        """What is there is what should be, no more and no less."""
        names = [member.name for member in self.manifest.files]
        if DATABASE not in names:
            raise self._damaged(f"{DATABASE} is missing")
        should = {*names, MANIFEST, SEAL}
        if len(should) != len(names) + 2 or should != set(self._places):
            wrong = sorted(should.symmetric_difference(self._places)) or names
            raise self._damaged(f"{wrong[0]}: in the file or in its manifest, not in both")
        for member in self.manifest.files:
            if self._places[member.name][1] != member.bytes or not _is_sound(member):
                raise self._damaged(f"{member.name}: wrong length")

    def _damaged(self, what: str) -> StoreError:
        return StoreError("backup_damaged", path=str(self._path), what=what)

    def _not_ours(self) -> StoreError:
        return StoreError("not_a_backup", path=str(self._path))


class _Format(Struct):
    format: int


def _seal(manifest: bytes) -> bytes:
    return hashlib.sha256(manifest).hexdigest().encode() + b"\n"


def _is_ours(name: str) -> bool:
    return name in (DATABASE, CONFIG, MANIFEST, SEAL) or bool(LOG_NAME.fullmatch(name))


def _is_sound(member: Member) -> bool:
    """Pieces follow each other and are what is stored."""
    if not member.pieces:
        return member.bytes in (0, member.size)  # 0: nothing but a hole
    end = 0
    for offset, length in member.pieces:
        if offset < end or length <= 0:
            return False
        end = offset + length
    return end <= member.size and sum(length for _, length in member.pieces) == member.bytes


def _pieces(fd: int, size: int) -> Iterator[tuple[int, int]]:
    """Where a file holds something, as (offset, length)."""
    at = 0
    while at < size:
        try:
            begin = os.lseek(fd, at, os.SEEK_DATA)
        except OSError:  # nothing but a hole up to the end
            return
        at = min(os.lseek(fd, begin, os.SEEK_HOLE), size)
        if begin < at:
            yield begin, at - begin


def _read(file: BinaryIO, offset: int, length: int) -> Iterator[bytes]:
    while length:
        data = os.pread(file.fileno(), min(length, _CHUNK), offset)
        if not data:
            raise OSError(f"a file became shorter while it was read: {file.name}")
        yield data
        offset, length = offset + len(data), length - len(data)
