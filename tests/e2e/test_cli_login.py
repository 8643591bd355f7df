"""Logging in from a desk: passwords, codes, tokens, and what is left behind."""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from msgspec import structs

from stoker.lab.book import Put
from tests.helpers.api_server import ApiServer, serving
from tests.helpers.desks import Desk, answer

SECRET = "correct horse battery"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ApiServer]:
    with serving(tmp_path, is_lab=True) as running:
        yield running


@pytest.fixture
def admin(server: ApiServer, tmp_path: Path) -> Desk:
    token = server.add_person("root", role="admin")
    return Desk(tmp_path / "admin", STOKER_URL=server.url, STOKER_TOKEN=token)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path / "ana")


def one_time(admin: Desk, name: str, *options: str) -> str:
    return str(admin.json("user", "add", name, *options)[0]["one_time_password"])


def leave_for(server: ApiServer, name: str, away: timedelta) -> None:
    """As if the password had been given so much earlier."""
    book = server.flow.book
    for hashed, one in list(book.credentials.items()):
        if one.person == name and one.password_at is not None:
            older = structs.replace(one, password_at=one.password_at - away)
            server.run(book.amend([Put("credential", hashed, older)]))


def kept(desk: Desk) -> Path:
    return desk.state / "client.toml"


def test_the_first_log_in_from_a_slip_of_paper(server: ApiServer, admin: Desk, desk: Desk) -> None:
    slip = one_time(admin, "ana")
    admin("announce", "Reboot at six")

    terminal = desk.at_terminal("login", "ana", "--url", server.url)
    try:
        answer(
            terminal,
            (f"Password of ana at {server.url}", slip),
            ("New password:", "short"),
            ("The same again:", "short"),
            ("New password:", SECRET),
            ("The same again:", "mistyped"),
            ("New password:", SECRET),
            ("The same again:", SECRET),
        )
        assert terminal.until_gone() == 0
        assert "Not that one: too short: at least 8 characters." in terminal.text
        assert "The two are not the same" in terminal.text
        assert terminal.text.count("Announcement: Reboot at six") == 1
        assert SECRET.encode() not in terminal.sent
        assert slip.encode() not in terminal.sent
        assert f"Logged in at {server.url} as ana." in terminal.text
    finally:
        terminal.close()

    assert stat.S_IMODE(kept(desk).stat().st_mode) == 0o600
    assert desk("ls").startswith("No tasks are waiting or running.")
    me = desk.json("me")
    assert (me["person"]["name"], me["person"]["must_change"]) == ("ana", False)
    assert slip not in kept(desk).read_text() + SECRET


def test_in_a_script_passwords_come_by_standard_input(
    server: ApiServer, admin: Desk, desk: Desk
) -> None:
    slip = one_time(admin, "ana")

    facts = desk.json("login", "ana", "--url", server.url, typed=f"{slip}\n{SECRET}\n")
    assert (facts["name"], facts["must_change"]) == ("ana", False)
    assert "The name or the password is wrong" in desk("login", "ana", typed=f"{slip}\n", code=2)
    assert desk("me").count("ana"), "a failed log-in changes nothing"

    assert "The password is changed" in desk("passwd", typed=f"{SECRET}\nanother secret\n")
    desk("login", "ana", typed="another secret\n")  # the server of last time
    assert len(desk.json("token", "ls")) == 1, "the token of last time has ended"


def test_a_password_that_is_not_chosen_yet_is_said(
    server: ApiServer, admin: Desk, desk: Desk
) -> None:
    slip = one_time(admin, "ana")

    said = desk("login", "ana", "--url", server.url, typed=f"{slip}\n")

    assert "Choose a password of your own before anything else: stoker passwd" in said
    assert "Choose a password of your own first. Run: stoker passwd" in desk("ls", code=2)
    assert "at least 8" in desk("passwd", typed=f"{slip}\nshort\n", code=2)
    desk("passwd", typed=f"{slip}\n{SECRET}\n")
    desk("ls")


def test_a_code_needs_no_password(server: ApiServer, admin: Desk, desk: Desk) -> None:
    one_time(admin, "ana")
    code = admin.json("user", "code", "ana")["code"]

    desk("login", "--url", server.url, "--code", code, typed=f"{SECRET}\n")

    assert desk.json("me")["person"]["must_change"] is False
    other = Desk(desk.folder / "other")
    again = other("login", "--url", server.url, "--code", typed=f"{code}\n", code=2)
    assert "This one-time code is not good" in again
    other("login", "ana", "--url", server.url, typed=f"{SECRET}\n")


def test_logging_out_ends_the_token_here_and_there(
    server: ApiServer, admin: Desk, desk: Desk
) -> None:
    slip = one_time(admin, "ana")
    desk("login", "ana", "--url", server.url, typed=f"{slip}\n{SECRET}\n")
    token = re.search(r'token = "(\S+)"', kept(desk).read_text())
    assert token is not None

    assert desk("logout") == f"Logged out at {server.url}.\n"

    assert server.request("GET", "/tasks", token=token[1]).status == 401
    assert kept(desk).read_text() == f'url = "{server.url}"\n'
    assert "stoker login" in desk("ls", code=2)
    assert "Nobody is logged in here." in desk("logout", code=2)


def test_tokens_for_programs(server: ApiServer, admin: Desk, desk: Desk) -> None:
    slip = one_time(admin, "ana")
    desk("login", "ana", "--url", server.url, typed=f"{slip}\n{SECRET}\n")

    desk("token", "new", "nightly", "--scope", "tasks:read", "--days", "7")
    token = desk.out.strip()
    assert "shown only this once" in desk.err

    program = Desk(desk.folder / "program", STOKER_URL=server.url, STOKER_TOKEN=token)
    program("ls")
    assert "tasks:write" in program("submit", "true", code=2)
    assert token not in desk("token", "ls")
    listed = {one["label"]: one["id"] for one in desk.json("token", "ls")}
    assert desk("token", "rm", listed["nightly"]).endswith("is good for nothing from now on.\n")
    assert "stoker login" in program("ls", code=2)
    assert "is not one of" in desk("token", "new", "x", "--scope", "all", code=2)
    assert "nightly" not in admin("token", "ls", "--person", "ana")


def test_own_settings(server: ApiServer, admin: Desk, desk: Desk) -> None:
    slip = one_time(admin, "ana")
    desk("login", "ana", "--url", server.url, typed=f"{slip}\n{SECRET}\n")

    assert "Only admins may do that" in desk("user", "ls", code=2)
    desk("me", "set", "language", "zh")
    desk("me", "set", "notify", "failed,limit")
    desk("me", "default", "time-limit", "2h")
    desk("me", "default", "gpus", "1")
    person = desk.json("me")["person"]
    assert (person["language"], person["notify"]) == ("zh", ["failed", "limit"])
    assert person["defaults"] == {"time_limit_s": 7200, "gpus": 1}
    assert re.search(r"Usual options +--time-limit 7200 +--gpus 1", desk("me"))
    desk("me", "default", "gpus", "--unset")
    desk("me", "set", "notify", "none")
    person = desk.json("me")["person"]
    assert (person["notify"], person["defaults"]) == ([], {"time_limit_s": 7200})

    assert desk("me", "default", "gpus", "x", code=2).startswith("stoker: gpus: `x` is not a whole")
    assert "is no option of submit" in desk("me", "default", "nonsense", "1", code=2)
    assert desk("me", "set", "weight", "5", code=2).startswith("stoker: setting: `weight`")
    assert desk("me", "set", "language", "fr", code=2).startswith("stoker: language: `fr`")


def test_an_admin_who_was_away_is_asked_again(server: ApiServer, admin: Desk, desk: Desk) -> None:
    slip = one_time(admin, "boss", "--role", "admin")
    desk("login", "boss", "--url", server.url, typed=f"{slip}\n{SECRET}\n")
    desk("user", "add", "ana")
    leave_for(server, "boss", timedelta(minutes=16))

    assert "This needs your password again" in desk("user", "lock", "ana", code=2)
    terminal = desk.at_terminal("user", "lock", "ana")
    try:
        answer(terminal, ("This needs your password again:", SECRET))
        assert terminal.until_gone() == 0
        assert "ana cannot log in any more" in terminal.text
    finally:
        terminal.close()
    desk("user", "unlock", "ana")

    leave_for(server, "boss", timedelta(minutes=16))
    assert desk("settings", "get", "gpu_slots") == "1\n", "looking needs none"
    terminal = desk.at_terminal("settings", "set", "gpu_slots", "2")
    try:
        answer(terminal, ("This needs your password again:", SECRET))
        assert terminal.until_gone() == 0
    finally:
        terminal.close()
    assert desk("settings", "get", "gpu_slots") == "2\n"


def test_in_the_clear_it_warns_before_anything_is_sent(desk: Desk) -> None:
    desk.env["STOKER_URL"] = "http://0.0.0.0:1"
    said = desk("login", "ana", typed="secret\n", code=3)
    assert said.startswith("WARNING: http://0.0.0.0:1 is not encrypted.")
    desk.env["STOKER_URL"] = "http://127.0.0.1:1"
    assert "WARNING" not in desk("login", "ana", typed="secret\n", code=3)
    assert desk("login", "--url", "gpu.lab", code=2).startswith(
        "stoker: url: `gpu.lab` is not an address"
    )
    assert not kept(desk).exists()


def test_where_one_person_is_served_nobody_logs_in(tmp_path: Path, desk: Desk) -> None:
    with serving(tmp_path) as server:
        said = desk("login", "ana", "--url", server.url, typed="secret\n", code=2)
        assert "serves one person" in said
        desk.env |= {"STOKER_URL": server.url, "STOKER_TOKEN": server.token}
        assert desk("me").startswith("This Stoker serves one person, ana;")


def test_no_password_is_in_any_file_of_the_server(
    server: ApiServer, admin: Desk, desk: Desk
) -> None:
    slip = one_time(admin, "ana")
    desk("login", "ana", "--url", server.url, typed=f"{slip}\n{SECRET}\n")
    for path in [*server.home.glob("stoker.db*"), *server.home.glob("logs/*")]:
        if path.is_file():
            data = path.read_bytes()
            assert SECRET.encode() not in data
            assert slip.encode() not in data
