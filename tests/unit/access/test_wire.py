"""What holds a secret never prints it."""

from __future__ import annotations

from datetime import UTC, datetime

from stoker.access.issue import Issued
from stoker.access.tokens import csrf_of, kept_as, new_secret, public_id
from stoker.domain.person import Credential, Person
from stoker.wire_access import Confirmation, LoggedIn, LoginWish, PasswordWish

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PERSON = Person(name="ana")


def test_printing_tells_nothing() -> None:
    secret = new_secret()
    credential = Credential(kind="token", person="ana", scopes=(), created_at=NOW, expires_at=None)
    for value in (
        LoginWish(name="ana", password=secret, code=secret),
        PasswordWish(old=secret, new=secret),
        Confirmation(password=secret),
        Issued(secret, credential, PERSON),
        LoggedIn(token=secret, csrf=secret, person=PERSON, expires_at=None, must_change=False),
    ):
        assert secret not in f"{value!r} {value} {[value]}"


def test_a_token_is_256_bits_and_its_name_is_not_part_of_it() -> None:
    secret = new_secret()
    assert len(secret) == len("stk_") + 43
    assert len({new_secret() for _ in range(100)}) == 100
    assert public_id(kept_as(secret)) not in secret
    assert len(public_id(kept_as(secret))) == 12
    assert csrf_of(secret) not in (secret, kept_as(secret))
