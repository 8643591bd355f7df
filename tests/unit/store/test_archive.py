"""A backup's file: what was put in comes out, and nothing that was altered is believed."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from stoker.domain.errors import StoreError
from stoker.store.archive import (
    CONFIG,
    DATABASE,
    FORMAT,
    MANIFEST,
    SEAL,
    Manifest,
    Member,
    Reader,
    Writer,
)

LOG = f"logs/ab/ab{'0' * 30}.0.stdout"
RECORDS = b"records " * 4000
TarMember = tuple[tarfile.TarInfo, bytes]


def nothing(_more: int) -> None:
    pass


def manifest(files: tuple[Member, ...], **more: object) -> Manifest:
    facts: dict[str, object] = {
        "format": FORMAT,
        "stoker": "1.0",
        "schema": "0002",
        "made_at": "2026-11-15T12:00:00+00:00",
        "host": "lab1",
        "database": "d",
        "epoch": 7,
        "records": {"tasks": 1},
        "files": files,
    }
    return Manifest(**(facts | more))  # type: ignore[arg-type]


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    """Records, settings, and an output of 3 MiB of which the middle is a hole."""
    (tmp_path / "db").write_bytes(RECORDS)
    with (tmp_path / "log").open("wb") as log:
        log.write(b"begin")
        log.seek(3 << 20)
        log.write(b"end")
    path = tmp_path / "backup.tar"
    writer = Writer(path)
    for name, source in ((DATABASE, "db"), (LOG, "log")):
        with (tmp_path / source).open("rb") as file:
            writer.add_file(name, file, nothing)
    writer.add_bytes(CONFIG, b'policy = "fifo"\n')
    writer.keep(manifest(tuple(writer.files)), nothing)
    return path


def taken_out(backup: Path, name: str, to: Path) -> bytes:
    with closing(Reader(backup)) as reader:
        member = next(one for one in reader.manifest.files if one.name == name)
        fd = os.open(to, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        try:
            reader.put(member, fd, nothing)
        finally:
            os.close(fd)
    return to.read_bytes()


def altered(backup: Path, change: Callable[[list[TarMember]], None]) -> None:
    """The same file with other members; its manifest is not brought up to date."""
    with tarfile.open(backup) as tar:
        members = [(one, tar.extractfile(one).read()) for one in tar.getmembers()]  # type: ignore[union-attr]
    change(members)
    with tarfile.open(backup, "w", format=tarfile.GNU_FORMAT) as tar:
        for info, data in members:
            tar.addfile(info, io.BytesIO(data) if info.isreg() else None)


def an_entry(name: str, data: bytes = b"x", **fields: object) -> TarMember:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for field, value in fields.items():
        setattr(info, field, value)
    return info, data


def refusal(backup: Path) -> StoreError:
    with pytest.raises(StoreError) as refused, closing(Reader(backup)) as reader:
        reader.verify(nothing)
    return refused.value


def test_what_was_put_in_comes_out(backup: Path, tmp_path: Path) -> None:
    assert taken_out(backup, DATABASE, tmp_path / "out") == RECORDS
    assert taken_out(backup, CONFIG, tmp_path / "settings") == b'policy = "fifo"\n'
    assert backup.stat().st_mode & 0o777 == 0o600
    assert not list(tmp_path.glob("*.part"))


def test_an_output_keeps_its_holes(backup: Path, tmp_path: Path) -> None:
    assert backup.stat().st_size < 1 << 20
    out = taken_out(backup, LOG, tmp_path / "out")
    assert (out[:5], out[-3:], len(out)) == (b"begin", b"end", (3 << 20) + 3)
    assert out == (tmp_path / "log").read_bytes()
    assert (tmp_path / "out").stat().st_blocks * 512 < 1 << 20


def test_any_tar_can_list_it(backup: Path) -> None:
    with tarfile.open(backup) as tar:
        assert tar.getnames() == [DATABASE, LOG, CONFIG, MANIFEST, SEAL]


def test_one_flipped_bit_is_found_wherever_it_is(backup: Path) -> None:
    whole = backup.read_bytes()
    end = len(whole.rstrip(b"\0"))
    with closing(Reader(backup)) as reader:
        places = list(reader._places.values())
    bytes_that_count = [at for start, size in places for at in (start, start + size - 1)]
    for at in [*bytes_that_count, 0, 124, 148, end - 1]:
        backup.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert refusal(backup).code in ("backup_damaged", "not_a_backup"), at


def test_a_truncated_one_is_refused(backup: Path) -> None:
    whole = backup.read_bytes()
    for size in (0, 100, 511, 512, 1000, 20_000, len(whole) // 2, len(whole) - 1100):
        backup.write_bytes(whole[:size])
        assert refusal(backup).code in ("backup_damaged", "not_a_backup"), size


@pytest.mark.parametrize(
    "extra",
    [
        an_entry("../evil"),
        an_entry("/etc/cron.d/evil"),
        an_entry("logs/../../evil"),
        an_entry(f"logs/ab/../{'0' * 32}.0.stdout"),
        an_entry("notes.txt"),
        an_entry(f"logs/cd/cd{'0' * 30}.0.stdout"),
        an_entry(DATABASE),
        an_entry(f"logs/cd/cd{'0' * 30}.0.stderr", b"", type=tarfile.SYMTYPE, linkname="/etc"),
        an_entry(f"logs/cd/cd{'0' * 30}.0.stderr", b"", type=tarfile.LNKTYPE, linkname=DATABASE),
        an_entry("logs/cd", b"", type=tarfile.DIRTYPE),
        an_entry("logs/ab/fifo", b"", type=tarfile.FIFOTYPE),
        an_entry("x" * 300),
    ],
    ids=lambda entry: entry[0].name[:30] + str(entry[0].type),
)
@pytest.mark.parametrize("place", [0, 1])
def test_what_the_manifest_does_not_name_is_refused(
    backup: Path, extra: TarMember, place: int
) -> None:
    altered(backup, lambda members: members.insert(place, extra))

    assert refusal(backup).code == "backup_damaged"


def test_a_member_that_is_missing_is_noticed(backup: Path) -> None:
    whole = backup.read_bytes()
    for place in range(5):
        backup.write_bytes(whole)
        altered(backup, lambda members, place=place: members.pop(place))  # type: ignore[misc]
        assert refusal(backup).code == "backup_damaged"


def test_a_manifest_that_was_rewritten_cannot_name_other_places(backup: Path) -> None:
    """Even with its seal made anew."""

    def rewrite(members: list[TarMember]) -> None:
        info, data = _named(members, MANIFEST)
        data = data.replace(LOG.encode(), b"logs/../../../../tmp/evil")
        data = msgspec.json.format(data)
        info.size = len(data)
        seal = hashlib.sha256(data).hexdigest().encode()
        members[-2:] = [(info, data), an_entry(SEAL, seal)]

    altered(backup, rewrite)

    assert refusal(backup).code == "backup_damaged"


def test_pieces_that_overlap_or_reach_too_far_are_refused(tmp_path: Path) -> None:
    data = b"0123456789"
    digest = hashlib.sha256(data).hexdigest()
    for size, pieces in (
        (10, ((0, 5), (3, 5))),
        (8, ((0, 10),)),
        (20, ((0, 4),)),
        (20, ((-5, 10),)),
        (20, ()),
    ):
        path = tmp_path / "odd.tar"
        writer = Writer(path)
        writer.add_bytes(DATABASE, data)
        with pytest.raises(StoreError) as refused:
            writer.keep(manifest((Member(DATABASE, 10, digest, size, pieces),)), nothing)
        writer.drop()
        assert refused.value.code == "backup_damaged"
        assert not path.exists()


def test_a_newer_format_is_told_apart_from_damage(tmp_path: Path) -> None:
    path = tmp_path / "newer.tar"
    writer = Writer(path)
    writer.add_bytes(DATABASE, b"whatever")
    with pytest.raises(StoreError) as refused:
        writer.keep(manifest(tuple(writer.files), format=FORMAT + 1), nothing)
    writer.drop()
    assert refused.value.code == "backup_newer"


def test_any_other_file_is_said_to_be_none(tmp_path: Path) -> None:
    for data in (b"", b"SQLite format 3\0" + bytes(5000), os.urandom(4096)):
        path = tmp_path / "other"
        path.write_bytes(data)
        assert refusal(path).code in ("not_a_backup", "backup_damaged")


def _named(members: list[TarMember], name: str) -> TarMember:
    return next(one for one in members if one[0].name == name)
