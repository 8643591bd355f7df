"""`stoker user` as an admin uses it, against a lab's server."""

from __future__ import annotations

import csv
import io
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stoker.engines.fake import Behaviour
from tests.helpers.api_server import ApiServer, serving
from tests.helpers.desks import Desk, answer

PASSWORD = r"[a-z2-9]{4}-[a-z2-9]{4}-[a-z2-9]{4}"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ApiServer]:
    with serving(tmp_path, lambda _: Behaviour(run_for_s=None), is_lab=True) as running:
        yield running


@pytest.fixture
def admin(server: ApiServer, tmp_path: Path) -> Desk:
    token = server.add_person("root", role="admin")
    return Desk(tmp_path / "desk", STOKER_URL=server.url, STOKER_TOKEN=token)


def known(admin: Desk, name: str) -> Any:
    return admin.json("user", "show", name)


def test_several_names_at_once(admin: Desk) -> None:
    said = admin("user", "add", "ana", "bo", "--team", "", "--expires", "2030-06-30")

    rows = admin.out.splitlines()
    assert [re.fullmatch(rf"(ana|bo) +{PASSWORD}", row) is not None for row in rows[1:]] == [
        True
    ] * 2
    assert "shown only this once" in admin.err
    assert "Traceback" not in said
    listed = admin("user", "ls")
    assert re.search(r"^ana +user +active +1 +- +2030-06-30 +ana$", listed, re.MULTILINE)
    refused = admin("user", "add", "cy", "ana", code=2)
    assert refused == (
        "stoker: ana: name: There is a person ana already. Choose another name, or change the one "
        "there is: stoker user edit ana\n"
    )
    assert "unknown" not in listed
    assert [one["name"] for one in admin.json("user", "ls")] == ["ana", "bo", "root"]


@pytest.mark.parametrize("coding", ["utf-8-sig", "gbk", "utf-16"])
def test_a_table_as_excel_saves_it(admin: Desk, coding: str) -> None:
    table = "账号,姓名,学号,导师,邮箱,有效期,组\r\nana,王安娜,2021001,李教授,ana@lab.cn,2030/6/30,\r\n,,,,,,\r\nbo,博,,,,,\r\n"
    (admin.folder / "名单.csv").write_bytes(table.encode(coding))

    said = admin("user", "add", "--file", "名单.csv", "--out", "passwords.csv")

    out = admin.folder / "passwords.csv"
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    rows = list(csv.reader(io.StringIO(out.read_text("utf-8-sig"))))
    assert [(row[0], row[1]) for row in rows[1:]] == [("ana", "王安娜"), ("bo", "博")]
    assert all(re.fullmatch(PASSWORD, row[2]) for row in rows[1:])
    assert rows[1][2] not in said
    ana = known(admin, "ana")
    assert (ana["supervisor"], ana["expires"], ana["student_id"]) == (
        "李教授", "2030-06-30", "2021001",
    )  # fmt: skip
    # what is there is never replaced, and nobody is added then
    (admin.folder / "more.csv").write_text("name\ncy\n")
    assert "is there already" in admin(
        "user", "add", "--file", "more.csv", "--out", "passwords.csv", code=2
    )
    assert "There is no person cy" in admin("user", "show", "cy", code=2)


def test_what_is_wrong_in_a_table_is_found_by_its_line(admin: Desk) -> None:
    (admin.folder / "class.csv").write_text("name,email\nana,ana@lab.cn\nBo,bo@lab.cn\n")

    refused = admin("user", "add", "--file", "class.csv", "--out", "passwords.csv", code=2)

    assert refused.startswith("stoker: class.csv:3: name: `Bo` cannot be a name")
    assert not (admin.folder / "passwords.csv").exists()
    assert [one["name"] for one in admin.json("user", "ls")] == ["root"]


def test_a_person_is_changed_piece_by_piece(admin: Desk) -> None:
    admin("user", "add", "ana", "--full-name", "Ana Li")
    shown = admin("user", "edit", "ana", "--account", "lana", "--node-account", "gpu2=ana2")
    assert re.search(r"Unix account +lana gpu2=ana2", shown)
    admin("user", "edit", "ana", "--node-account", "gpu2=", "--expires", "2031-01-01")
    admin("user", "edit", "ana", "--most-cards", "4", "--expires", "never")
    ana = known(admin, "ana")
    assert (ana["full_name"], ana["account"], ana["accounts"]) == ("Ana Li", "lana", {})
    assert (ana["most_cards"], ana["expires"]) == (4, None)

    assert admin("user", "weight", "ana", "-1") == "ana has weight -1 now.\n"
    assert admin("user", "role", "ana", "admin") == "ana is admin now.\n"
    assert admin("user", "role", "ana", "boss", code=2).startswith(
        "stoker: role: `boss` is not one of"
    )
    assert "Say what to change" in admin("user", "edit", "ana", code=2)
    taken = admin("user", "edit", "ana", "--account", "root", code=2)
    assert taken.startswith("stoker: account: The unix account root is root's")
    admin("user", "edit", "ana", "--account", "root", "--share-account")
    assert known(admin, "ana")["account"] == "root"


def test_locked_let_in_and_given_another_password(admin: Desk) -> None:
    admin("user", "add", "ana", "bo")
    assert admin("user", "lock", "ana", "nobody", "bo", code=2).count("cannot log in any more") == 2
    assert "nobody: There is no person nobody" in admin.err
    assert [one["state"] for one in admin.json("user", "ls")] == ["locked", "locked", "active"]
    assert "is the last admin" in admin("user", "lock", "root", code=2)
    admin("user", "unlock", "ana")
    assert re.fullmatch(PASSWORD, admin.json("user", "passwd", "ana")["one_time_password"])
    admin("user", "code", "ana")
    assert re.fullmatch(r"\S{20,}\n", admin.out)
    assert "stoker login --code" in admin.err


def test_removing_asks_what_becomes_of_the_tasks(admin: Desk, server: ApiServer) -> None:
    ana = server.add_person("ana")
    id = server.request("POST", "/tasks", {"command": ["sleep", "9"]}, token=ana).json["id"]
    server.add_person("bo")

    assert "add --yes" in admin("user", "rm", "ana", code=2)
    assert "1 running" in admin("user", "rm", "ana", "--yes", code=2)
    terminal = admin.at_terminal("user", "rm", "ana", "bo")
    try:
        answer(terminal, ("Cancel them all and remove", "y"), ("Remove bo for good?", "n"))
        assert terminal.until_gone() == 130
    finally:
        terminal.close()

    assert [one["name"] for one in admin.json("user", "ls")] == ["bo", "root"]
    assert admin.json("show", id)["task"]["outcome"] == "cancelled"
    assert admin("user", "rm", "bo", "--tasks", "cancel", "--yes") == (
        "bo is removed; tasks cancelled: 0.\n"
    )


def test_it_speaks_chinese(admin: Desk) -> None:
    admin.env["LANG"] = "zh_CN.UTF-8"
    admin("user", "add", "ana", "--full-name", "王安娜")
    assert "一次性密码只显示这一次" in admin.err
    assert re.search(r"^ana +普通用户 +正常 .*王安娜$", admin("user", "ls"), re.MULTILINE)
    assert "没有用户 bo" in admin("user", "lock", "bo", code=2)


def test_who_is_no_admin_is_told_so(server: ApiServer, tmp_path: Path) -> None:
    desk = Desk(tmp_path / "ana", STOKER_URL=server.url, STOKER_TOKEN=server.add_person("ana"))
    assert "Only admins may do that" in desk("user", "ls", code=2)
