"""Passwords: what a new one must be, what is kept of it, and that nobody's costs the same."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from argon2 import extract_parameters

from stoker.access import passwords
from stoker.access.passwords import MEMORY_KIB, Passwords, check_new
from stoker.domain.errors import InvalidSpec, RequestError


@pytest.fixture
def cheap() -> Iterator[Passwords]:
    found = Passwords(memory_kib=64, rounds=1)
    yield found
    found.close()


@pytest.mark.parametrize(
    ("password", "code"),
    [
        ("", "password_too_short"),
        ("1234567", "password_too_short"),
        ("Anastasia", "password_is_name"),
        ("long enough\0", "nul"),
        ("x" * 1025, "password_too_long"),
        ("密" * 342, "password_too_long"),
    ],
)
def test_a_new_one_that_is_refused(password: str, code: str) -> None:
    with pytest.raises(InvalidSpec) as refused:
        check_new(password, "anastasia", field="new")
    assert (refused.value.code, refused.value.field) == (code, "new")


@pytest.mark.parametrize("password", ["12345678", "        ", "密码密码密码密码", "x" * 1024])
def test_no_other_rules(password: str) -> None:
    check_new(password, "ana")


async def test_only_the_right_one_is_right(cheap: Passwords) -> None:
    kept = await cheap.hashed("correct horse")
    assert "correct" not in kept
    assert await cheap.is_right(kept, "correct horse")
    assert not await cheap.is_right(kept, "correct horse ")
    assert not await cheap.is_right(kept, "")
    assert not await cheap.is_right("no hash at all", "correct horse")
    assert not await cheap.is_right(None, "correct horse")
    assert not await cheap.is_right(None, "nobody's")
    assert await cheap.hashed("correct horse") != kept


async def test_what_is_kept_is_as_strong_as_was_decided() -> None:
    strong, weak = Passwords(), Passwords(memory_kib=64, rounds=1)
    found = extract_parameters(await strong.hashed("correct horse"))
    assert (found.type.name, found.memory_cost, found.parallelism) == ("ID", MEMORY_KIB, 1)
    assert found.memory_cost >= 19 * 1024
    assert found.time_cost >= 2
    assert strong.is_outdated(await weak.hashed("correct horse"))
    assert not strong.is_outdated(await strong.hashed("correct horse"))
    strong.close()
    weak.close()


async def test_the_line_is_bounded(cheap: Passwords, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passwords, "MOST_WAITING", 3)
    many = [cheap.is_right(None, "x") for _ in range(10)]
    found = await asyncio.gather(*many, return_exceptions=True)
    refused = [one for one in found if isinstance(one, RequestError)]
    assert {one.code for one in refused} == {"logins_busy"}
    assert len(refused) == 7
    assert await cheap.is_right(None, "x") is False
