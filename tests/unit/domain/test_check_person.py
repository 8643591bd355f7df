"""Names, accounts and addresses of people; and who would share a unix account."""

from __future__ import annotations

import pytest

from stoker.domain.check_person import check_person, shared_account
from stoker.domain.errors import InvalidSpec
from stoker.domain.person import Person


@pytest.mark.parametrize("name", ["ana", "_svc", "li.wei", "b-2", "a" * 32])
def test_names_as_unix_has_them(name: str) -> None:
    check_person(Person(name=name))


@pytest.mark.parametrize(
    "name", ["", "Ana", "1st", "-x", ".x", "a b", "a/b", "a" * 33, "安娜", "ana\n", "a;b", "a:b"]
)
def test_names_that_are_none(name: str) -> None:
    with pytest.raises(InvalidSpec) as found:
        check_person(Person(name=name))
    assert (found.value.code, found.value.field) == ("bad_person_name", "name")


@pytest.mark.parametrize(
    ("known", "code", "field"),
    [
        ({"full_name": "A\x1b[2J"}, "control_characters", "full_name"),
        ({"team": "a\nb"}, "control_characters", "team"),
        ({"email": "ana"}, "bad_email", "email"),
        ({"email": "ana@a b"}, "bad_email", "email"),
        ({"email": "a@b, c@d"}, "bad_email", "email"),
        ({"account": "-"}, "bad_account", "account"),
        ({"account": "a b"}, "bad_account", "account"),
        ({"accounts": {"gpu1": ""}}, "bad_account", "accounts.gpu1"),
        ({"accounts": {"": "ana"}}, "bad_node_name", "accounts"),
        ({"accounts": {"gpu1\n": "ana"}}, "bad_node_name", "accounts"),
    ],
)
def test_what_is_refused_is_named(known: dict[str, object], code: str, field: str) -> None:
    with pytest.raises(InvalidSpec) as found:
        check_person(Person(name="ana", **known))  # type: ignore[arg-type]
    assert (found.value.code, found.value.field) == (code, field)


def test_details_may_be_in_any_script() -> None:
    check_person(Person(name="ana", full_name="王安娜", supervisor="李教授", email="a@实验室.cn"))


@pytest.mark.parametrize(
    ("one", "other", "shared"),
    [
        (Person(name="ana"), Person(name="bo"), None),
        (Person(name="ana"), Person(name="bo", account="ana"), ("ana", "")),
        (Person(name="ana", account="lab"), Person(name="bo", account="lab"), ("lab", "")),
        (Person(name="ana", accounts={"n1": "bo"}), Person(name="bo"), ("bo", "n1")),
        (Person(name="ana"), Person(name="bo", accounts={"n1": "ana"}), ("ana", "n1")),
        (
            Person(name="ana", accounts={"n1": "x"}),
            Person(name="bo", accounts={"n2": "x"}),
            None,
        ),
    ],
)
def test_two_people_are_one_account_somewhere(
    one: Person, other: Person, shared: tuple[str, str] | None
) -> None:
    found = shared_account(one, [one, other])
    assert (found and (found.account, found.node)) == shared
    assert found is None or found.person == "bo"
