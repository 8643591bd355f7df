"""How the first admin of a lab comes in: a code, made anew until somebody has."""

from __future__ import annotations

import pwd
import stat
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec import structs

from stoker.access.first import FILE, has_come_in, let_first_admin_in
from stoker.access.tokens import kept_as, of_book, with_own
from stoker.domain.errors import NotAllowed
from stoker.domain.person import Person
from stoker.lab.book import Book, Put
from stoker.store.recorder import SqlStore, open_store

TOKEN = "stk_the-token-in-the-folder"


class Clock:
    def now(self) -> datetime:
        return datetime.now(UTC)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqlStore]:
    made = open_store(tmp_path / "stoker.db")
    yield made
    assert made.check() == []
    made.close()


async def a_book(store: SqlStore) -> Book:
    book = Book(store)
    await book.load()
    return book


async def test_a_code_is_made_at_every_start_until_an_admin_has_come_in(
    store: SqlStore, tmp_path: Path
) -> None:
    book, path, codes = await a_book(store), tmp_path / FILE, []
    for _ in range(2):
        await let_first_admin_in(tmp_path, book, Clock(), "ana")
        name, code = path.read_text().split()
        codes.append(code)
        assert name == "ana"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert (book.people["ana"].role, book.people["ana"].must_change) == ("admin", True)
    assert list(book.credentials) == [kept_as(codes[1])]  # the older one is void
    assert codes[0] != codes[1]
    assert not has_come_in(book)

    changed = structs.replace(book.people["ana"], must_change=False)
    await book.amend([Put("person", "ana", changed)])
    assert not path.exists()
    await let_first_admin_in(tmp_path, book, Clock(), "ana")
    assert not path.exists()


async def test_somebody_of_that_name_is_not_made_an_admin(store: SqlStore, tmp_path: Path) -> None:
    book = await a_book(store)
    await book.amend([Put("person", "ana", Person(name="ana"))])
    await let_first_admin_in(tmp_path, book, Clock(), "ana")
    assert book.people["ana"].role == "user"
    assert book.people["admin"].role == "admin"


async def test_who_called_sudo_is_the_first_admin_if_a_person(
    store: SqlStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = await a_book(store)
    person = pwd.getpwuid(65534).pw_name
    monkeypatch.setenv("SUDO_USER", person)
    await let_first_admin_in(tmp_path, book, Clock(), "")
    assert list(book.people) == [person]


@pytest.mark.parametrize("caller", ["", "daemon", "no-such-account"])
async def test_else_it_is_admin(
    store: SqlStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caller: str
) -> None:
    book = await a_book(store)
    monkeypatch.setenv("SUDO_USER", caller)
    await let_first_admin_in(tmp_path, book, Clock(), "")
    assert list(book.people) == ["admin"]


async def test_the_token_in_the_servers_folder_is_an_admins(store: SqlStore) -> None:
    book = await a_book(store)
    identify = with_own(TOKEN, "root", book, of_book(book, Clock()))
    caller = identify.token(TOKEN, "127.0.0.1")
    assert (caller.name, caller.is_admin, caller.origin) == ("root", True, "127.0.0.1")
    with pytest.raises(NotAllowed):
        identify.token(TOKEN + "x", "127.0.0.1")
