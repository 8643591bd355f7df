"""What is sealed opens with its key, as what it was sealed for, and not otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.domain.errors import AppError, Conflict
from stoker.lab.seal import Seal


def test_what_is_sealed_opens_as_what_it_was_sealed_for(tmp_path: Path) -> None:
    seal = Seal(tmp_path / "secret.key")

    sealed = seal.seal("https://x/令牌", "channel/ana/feishu")

    assert "令牌" not in sealed
    assert seal.seal("https://x/令牌", "channel/ana/feishu") != sealed
    assert Seal(tmp_path / "secret.key").open(sealed, "channel/ana/feishu") == "https://x/令牌"
    with pytest.raises(Conflict, match="key_lost"):
        seal.open(sealed, "channel/bo/feishu")


def test_the_key_is_private_and_made_once(tmp_path: Path) -> None:
    path = tmp_path / "secret.key"
    Seal(path).seal("a", "b")
    first = path.read_bytes()
    Seal(path).seal("a", "b")

    assert path.read_bytes() == first
    assert path.stat().st_mode & 0o777 == 0o600
    assert [one.name for one in tmp_path.iterdir()] == ["secret.key"]
    path.chmod(0o640)
    with pytest.raises(AppError, match="key_not_private"):
        Seal(path).seal("a", "b")


@pytest.mark.parametrize("damage", [b"", b"another 00\n", b"nonsense", b"aaaa bbbb\n"])
def test_without_its_key_nothing_opens(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "secret.key"
    sealed = Seal(path).seal("a", "b")
    path.write_bytes(damage)

    with pytest.raises(AppError):
        Seal(path).open(sealed, "b")


@pytest.mark.parametrize("sealed", ["", "1", "1.x", "1.x.!!!", "2.x.aaaa", "1..", "no such thing"])
def test_what_was_never_sealed_does_not_open(tmp_path: Path, sealed: str) -> None:
    seal = Seal(tmp_path / "secret.key")
    seal.seal("a", "b")

    with pytest.raises(Conflict, match="key_lost"):
        seal.open(sealed, "b")


def test_a_changed_byte_is_noticed(tmp_path: Path) -> None:
    seal = Seal(tmp_path / "secret.key")
    sealed = seal.seal("a", "b")

    with pytest.raises(Conflict, match="key_lost"):
        seal.open(sealed[:-6] + ("AAAA" if sealed[-6:-2] != "AAAA" else "BBBB") + sealed[-2:], "b")


def test_a_new_key_seals_and_the_old_one_still_opens(tmp_path: Path) -> None:
    path = tmp_path / "secret.key"
    old = Seal(path).seal("old", "x")
    Seal(tmp_path / "other.key").seal("", "x")
    path.write_bytes((tmp_path / "other.key").read_bytes() + path.read_bytes())

    seal = Seal(path)
    new = seal.seal("new", "x")

    assert seal.open(old, "x") == "old"
    assert seal.open(new, "x") == "new"
    assert old.split(".")[1] != new.split(".")[1]
