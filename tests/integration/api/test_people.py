"""People over HTTP: every route, every refusal, and what is known of it afterwards."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from argon2 import PasswordHasher
from typing_extensions import override

from stoker.access import people as lab
from stoker.access.caller import the_one
from stoker.access.tokens import Identify, with_own
from stoker.domain.errors import Conflict
from stoker.engines.fake import Behaviour
from tests.helpers.api_server import ApiServer, Reply, serving

FIELDS = (
    "role", "full_name", "student_id", "supervisor", "email", "expires", "login", "account",
    "accounts", "team", "weight", "most_cards",
)  # fmt: skip


class Lab:
    """A server, and its first admin."""

    def __init__(self, server: ApiServer) -> None:
        self.server = server
        self.admin = server.add_person("root", role="admin")

    def ask(self, method: str, path: str, body: object = None, **how: Any) -> Reply:
        return self.server.request(method, path, body, **{"token": self.admin, **how})

    def edit(self, name: str, *, query: str = "", version: int = 0, **changed: object) -> Reply:
        """As a client does: look, change, send all of it back."""
        seen = self.ask("GET", f"/people/{name}").json
        settings = {field: seen[field] for field in FIELDS} | changed
        match = {"If-Match": f'"{version or seen["version"]}"'}
        return self.ask("PUT", f"/people/{name}{query}", settings, headers=match)

    def acts(self) -> list[tuple[str, str, str]]:
        found = self.server.run(self.server.flow.store.audited(None, 50))
        return [(one.act.who, one.act.act, one.act.on) for one in reversed(found)]

    def hash_of(self, name: str) -> str | None:
        return self.server.run(self.server.flow.store.secret("person", name))


@pytest.fixture
def people(tmp_path: Path) -> Iterator[Lab]:
    with serving(tmp_path, lambda _: Behaviour(run_for_s=None), is_lab=True) as server:
        yield Lab(server)


def code(reply: Reply) -> tuple[int, str, str | None]:
    return reply.status, reply.json["code"], reply.json["field"]


def test_somebody_new_gets_a_password_for_once(people: Lab) -> None:
    known = {"full_name": "王安娜", "expires": "2030-01-31", "accounts": {"gpu1": "wang"}}

    added = people.ask("POST", "/people", {"name": "ana", **known})

    assert added.status == 201
    person, password = added.json["person"], added.json["one_time_password"]
    assert person | known == person
    assert (person["name"], person["role"], person["state"]) == ("ana", "user", "active")
    assert person["must_change"] is True
    assert re.fullmatch(r"[a-hjkmnp-z2-9]{4}(-[a-hjkmnp-z2-9]{4}){2}", password)
    kept = people.hash_of("ana")
    assert kept is not None
    assert PasswordHasher().verify(kept, password)
    assert people.ask("GET", "/people/ana").json == person
    assert [one["name"] for one in people.ask("GET", "/people").json] == ["ana", "root"]
    assert people.acts() == [("root", "person.add", "person ana")]
    everywhere = people.ask("GET", "/people").body
    assert password.encode() not in everywhere
    assert kept.encode() not in everywhere


def test_a_given_password_counts_once_and_the_systems_needs_none(people: Lab) -> None:
    given = people.ask("POST", "/people", {"name": "ana", "password": "correct horse"}).json
    system = people.ask("POST", "/people", {"name": "bo", "login": "system"}).json

    assert (given["one_time_password"], given["person"]["must_change"]) == (None, True)
    assert PasswordHasher().verify(str(people.hash_of("ana")), "correct horse")
    assert (system["one_time_password"], system["person"]["must_change"]) == (None, False)
    assert people.hash_of("bo") is None


@pytest.mark.parametrize(
    ("body", "refusal"),
    [
        ({"name": "Ana"}, (422, "bad_person_name", "name")),
        ({"name": "root"}, (409, "person_exists", "name")),
        ({"name": "ana", "role": "boss"}, (422, "not_a_choice", "role")),
        ({"name": "ana", "locked": True}, (422, "unknown_field", "locked")),
        ({"name": "ana", "email": "x"}, (422, "bad_email", "email")),
        ({"name": "ana", "team": "cv"}, (422, "no_such_team", "team")),
        ({"name": "ana", "account": "root"}, (409, "account_taken", "account")),
        ({"name": "ana", "password": "short"}, (422, "password_too_short", "password")),
        (
            {"name": "ana", "password": "longenough", "login": "system"},
            (422, "system_password", "password"),
        ),
        ({"name": "ana", "expires": "soon"}, (422, "invalid", "expires")),
        ({"name": "ana", "weight": 10**9}, (422, "too_large", "weight")),
    ],
)
def test_who_cannot_be_added(people: Lab, body: object, refusal: tuple[int, str, str]) -> None:
    assert code(people.ask("POST", "/people", body)) == refusal
    assert len(people.ask("GET", "/people").json) == 1
    assert people.acts() == []


def test_many_at_once_or_none(people: Lab) -> None:
    broken = [{"name": "ana"}, {"name": "bo"}, {"name": "ana"}]
    assert code(people.ask("POST", "/people/batch", {"people": broken})) == (
        409, "person_exists", "people[2].name",
    )  # fmt: skip
    broken = [{"name": "ana"}, {"name": "bo", "account": "ana"}]
    assert code(people.ask("POST", "/people/batch", {"people": broken})) == (
        409, "account_taken", "people[1].account",
    )  # fmt: skip
    assert len(people.ask("GET", "/people").json) == 1

    added = people.ask("POST", "/people/batch", {"people": [{"name": "ana"}, {"name": "bo"}]})

    assert added.status == 201
    assert [one["person"]["name"] for one in added.json] == ["ana", "bo"]
    assert len({one["one_time_password"] for one in added.json}) == 2
    assert [act for _, act, _ in people.acts()] == ["person.add", "person.add"]


def test_two_people_share_an_account_only_if_an_admin_says_so(people: Lab) -> None:
    people.server.add_person("ana")
    body = {"name": "bo", "account": "ana"}

    assert code(people.ask("POST", "/people", body)) == (409, "account_taken", "account")
    assert people.ask("POST", "/people?share_account=true", body).status == 201
    # who shares already is not asked again for a change of something else
    assert people.edit("bo", weight=3).status == 200
    assert code(people.edit("root", accounts={"n1": "ana"})) == (
        409, "account_taken", "accounts.n1",
    )  # fmt: skip
    shared = people.edit("root", accounts={"n1": "ana"}, query="?share_account=true")
    assert shared.status == 200


def test_settings_are_changed_as_a_whole_and_by_version(people: Lab) -> None:
    people.server.add_person("ana", language="zh", notify=("failed",))

    changed = people.edit("ana", weight=0, email="ana@lab.cn", expires="2030-12-31").json

    assert (changed["weight"], changed["email"], changed["version"]) == (0, "ana@lab.cn", 2)
    assert (changed["language"], changed["notify"]) == ("zh", ["failed"])
    last = people.server.run(people.server.flow.store.audited(None, 1))[0].act
    assert last.act == "person.edit"
    assert last.values == {
        "fields": ["email", "expires", "weight"], "weight": 0, "expires": "2030-12-31",
    }  # fmt: skip
    assert code(people.edit("ana", version=1, weight=5)) == (412, "stale_person", None)
    assert people.ask("PUT", "/people/ana", {"weight": 5}).status == 422
    whole = {field: changed[field] for field in FIELDS}
    assert code(people.ask("PUT", "/people/ana", whole)) == (428, "if_match_missing", None)
    assert people.edit("ana").json["version"] == 2, "nothing was changed"


def test_who_is_locked_is_out_with_every_token(people: Lab) -> None:
    ana = people.server.add_person("ana")
    task = people.server.request("POST", "/tasks", {"command": ["true"]}, token=ana).json["id"]

    locked = people.ask("POST", "/people/ana/lock")

    assert (locked.json["state"], locked.json["locked"]) == ("locked", True)
    assert people.server.request("GET", "/tasks", token=ana).status == 401
    assert people.ask("GET", f"/tasks/{task}").json["task"]["state"] != "FINISHED"
    assert people.ask("POST", "/people/ana/lock").status == 200, "may be repeated"
    assert people.ask("POST", "/people/ana/unlock").json["state"] == "active"
    assert people.server.request("GET", "/tasks", token=ana).status == 401, "tokens stay gone"
    assert [act for _, act, _ in people.acts()] == ["person.lock", "person.unlock"]


def test_who_has_expired_is_shown_so(people: Lab) -> None:
    people.server.add_person("ana")

    assert people.edit("ana", expires="2020-01-01").json["state"] == "expired"
    assert code(people.ask("POST", "/people/ana/code")) == (409, "person_shut_out", None)


def test_a_forgotten_password_is_replaced_and_every_token_with_it(people: Lab) -> None:
    ana = people.server.add_person("ana")

    reset = people.ask("POST", "/people/ana/password")

    assert reset.json["person"]["must_change"] is True
    kept = str(people.hash_of("ana"))
    assert PasswordHasher().verify(kept, reset.json["one_time_password"])
    assert people.server.request("GET", "/tasks", token=ana).status == 401
    people.edit("ana", login="system")
    assert people.hash_of("ana") is None
    assert code(people.ask("POST", "/people/ana/password")) == (409, "system_password", None)


def test_a_code_is_made_for_somebody(people: Lab) -> None:
    people.server.add_person("ana")

    made = people.ask("POST", "/people/ana/code").json

    assert made["person"] == "ana"
    kinds = [one.kind for one in people.server.flow.book.credentials.values()]
    assert kinds.count("code") == 1
    assert people.acts() == [("root", "code.new", "person ana")]


def test_the_last_admin_stays(people: Lab) -> None:
    for refused in (
        people.edit("root", role="user"),
        people.edit("root", expires="2020-01-01"),
        people.ask("POST", "/people/root/lock"),
        people.ask("DELETE", "/people/root"),
        people.ask("DELETE", "/people/root?tasks=cancel"),
    ):
        assert code(refused) == (409, "last_admin", None)
    assert people.ask("GET", "/people/root").json["state"] == "active"
    # one who cannot log in is no other admin
    people.server.add_person("old", role="admin", locked=True)
    assert code(people.ask("POST", "/people/root/lock")) == (409, "last_admin", None)

    people.server.add_person("bo", role="admin")

    assert people.edit("root", role="user").json["role"] == "user"


def test_two_admins_cannot_lock_each_other_at_once(people: Lab) -> None:
    people.server.add_person("bo", role="admin")
    book, clock, who = people.server.flow.book, people.server.flow.clock, the_one("root")

    async def both() -> list[object]:
        return await asyncio.gather(
            *(lab.lock(book, clock, name, who) for name in ("root", "bo")), return_exceptions=True
        )

    first, second = people.server.run(both())

    assert not isinstance(first, Exception)
    assert isinstance(second, Conflict)


def test_a_token_that_was_an_admins_is_not_one_again(people: Lab) -> None:
    bo = people.server.add_person("bo", role="admin")
    assert people.server.request("GET", "/people", token=bo).status == 200

    people.edit("bo", role="user")
    assert people.server.request("GET", "/people", token=bo).json["code"] == "admins_only"
    assert people.server.request("GET", "/tasks", token=bo).status == 200
    people.edit("bo", role="admin")

    assert people.server.request("GET", "/people", token=bo).json["code"] == "missing_scope"


def test_who_has_tasks_is_not_removed_unasked(people: Lab) -> None:
    ana = people.server.add_person("ana")
    submit = {"command": ["sleep", "1000"], "gpus": 4}
    ids = [people.server.request("POST", "/tasks", submit, token=ana).json["id"] for _ in "abc"]
    array = submit | {"array": "0-9"}
    ids.append(people.server.request("POST", "/tasks", array, token=ana).json["id"])
    people.server.until(
        lambda: people.ask("GET", f"/tasks/{ids[0]}").json["task"]["state"] == "RUNNING"
    )

    refused = people.ask("DELETE", "/people/ana")
    assert code(refused) == (409, "has_tasks", "tasks")
    assert "3 waiting, 1 running" in refused.json["message"]
    assert people.ask("GET", "/people/ana").json["state"] == "active"

    removed = people.ask("DELETE", "/people/ana?tasks=cancel")

    assert removed.json == {"removed": "ana", "cancelled": 4}
    assert code(people.ask("GET", "/people/ana")) == (404, "unknown_person", None)
    assert people.server.request("GET", "/tasks", token=ana).status == 401

    def outcomes() -> list[Any]:
        return [people.ask("GET", f"/tasks/{id}").json["task"]["outcome"] for id in ids]

    people.server.until(lambda: None not in outcomes())
    assert outcomes() == ["cancelled"] * 4
    assert people.ask("GET", f"/tasks/{ids[0]}").json["task"]["owner"] == "ana"
    acts = [act for _, act, on in people.acts() if on == "person ana"]
    assert acts == ["person.lock", "person.rm"]


def test_nothing_of_somebody_who_went_is_left_for_a_namesake(people: Lab) -> None:
    ana = people.server.add_person("ana")
    people.server.add_person("anabel")
    hook = {"url": "feishu://planted-token-4711"}
    assert people.ask("PUT", "/me/channels/hook", hook, token=ana).status == 200
    new = {"If-Match": '"0"'}
    for queue, named in (("ours", ["ana", "anabel"]), ("hers", ["ana"]), ("all", [])):
        made = people.ask("PUT", f"/queues/{queue}", {"people": named}, headers=new)
        assert made.status == 200, made.body

    assert people.ask("DELETE", "/people/ana").status == 200

    book, store = people.server.flow.book, people.server.flow.store
    assert dict(book.channels) == {}
    assert people.server.run(store.secret("channel", "ana/hook")) is None
    assert book.queues["ours"].people == ("anabel",)
    assert (book.queues["hers"].people, book.queues["hers"].most_waiting) == ((), 0)
    assert (book.queues["all"].people, book.queues["all"].most_waiting) == ((), None)
    act = people.server.run(store.audited(None, 1))[0].act
    assert (act.act, act.values) == ("person.rm", {"queues": ["hers", "ours"]})
    again = people.server.add_person("ana")
    assert people.ask("GET", "/me/channels", token=again).json == []
    task = {"command": ["true"], "hold": True}
    for queue in ("ours", "hers"):
        refused = people.ask("POST", "/tasks", task | {"queue": queue}, token=again)
        assert refused.status in (403, 409, 429), refused.body


def test_a_removal_that_was_cut_short_can_be_repeated(people: Lab) -> None:
    people.server.add_person("ana", locked=True)

    assert people.ask("DELETE", "/people/ana?tasks=cancel").status == 200
    assert code(people.ask("DELETE", "/people/ana")) == (404, "unknown_person", None)


class OwnToken(ApiServer):
    """A lab whose server also knows the token in its own folder, as `stoker up` makes it."""

    @override
    def _identify(self) -> Identify:
        return with_own(self.token, "root", self.flow.book, super()._identify())


def test_root_on_the_server_s_machine_lets_people_in(tmp_path: Path) -> None:
    server = OwnToken(tmp_path, lambda _: Behaviour(), tmp_path / "stoker.db", is_lab=True)
    server.start()
    try:
        added = server.request("POST", "/people", {"name": "ana"})
        assert (added.status, len(added.json["one_time_password"])) == (201, 14), added.body
        again = server.request("POST", "/people/ana/password")
        assert again.status == 200, again.body
        code = server.request("POST", "/people/ana/code")
        assert code.status == 200, code.body
    finally:
        server.stop()


def test_users_may_not_even_look(people: Lab) -> None:
    ana = people.server.add_person("ana")
    for method, path in (
        ("GET", "/people"), ("GET", "/people/ana"), ("POST", "/people/ana/unlock"),
        ("POST", "/people/ana/code"), ("DELETE", "/people/root"),
    ):  # fmt: skip
        assert code(people.ask(method, path, token=ana)) == (403, "admins_only", None)


def test_where_one_person_is_served_nobody_is_added(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        assert server.request("GET", "/people").json == []
        refused = server.request("POST", "/people", {"name": "bo"})
        assert code(refused) == (409, "one_person_mode", None)
