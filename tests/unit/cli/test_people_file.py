"""Lists of people as table programs save them, and the file that passwords go to."""

from __future__ import annotations

import os
from datetime import date
from pathlib import Path

import pytest

from stoker.cli.people_file import PasswordFile, read_people
from stoker.cli.say import Refusal


def written(folder: Path, text: str, coding: str = "utf-8") -> str:
    path = folder / "class.csv"
    path.write_bytes(text.encode(coding))
    return str(path)


@pytest.mark.parametrize("coding", ["utf-8", "utf-8-sig", "utf-16", "gb18030"])
@pytest.mark.parametrize("mark", [",", ";", "\t"])
def test_every_way_a_table_is_saved(tmp_path: Path, coding: str, mark: str) -> None:
    table = "姓名,账号,有效期\r\n王安娜,ana,2027年6月30日\r\n\r\n,,\r\n博,bo,\r\n".replace(
        ",", mark
    )

    rows = read_people(written(tmp_path, table, coding))

    assert [(row.line, row.values) for row in rows] == [
        (2, {"full_name": "王安娜", "name": "ana", "expires": date(2027, 6, 30)}),
        (5, {"full_name": "博", "name": "bo"}),
    ]


def test_quotes_blanks_and_english_headings(tmp_path: Path) -> None:
    table = 'Name,Full Name,E-mail,expires\n ana ,"Li, Ana",ana@lab.cn,2027/6/3\n'

    values = read_people(written(tmp_path, table))[0].values

    assert values == {
        "name": "ana", "full_name": "Li, Ana", "email": "ana@lab.cn", "expires": date(2027, 6, 3),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("table", "field", "said"),
    [
        ("", "class.csv", "holds nobody"),
        ("name\n", "class.csv", "holds nobody"),
        ("ana\nbo\n", "class.csv:1", "no column `ana`"),
        ("full_name\nAna\n", "class.csv:1", "must be `name`"),
        ("name,账号\nana,bo\n", "class.csv:1", "twice"),
        ("name,email\nana,a@b,x\n", "class.csv:2", "more cells"),
        ("name,email\n,a@b\n", "class.csv:2: name", "is empty"),
        ("name,expires\nana,soon\n", "class.csv:2: expires", "`soon` is not a day"),
        ("name,expires\nana,2027-02-30\n", "class.csv:2: expires", "is not a day"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, table: str, field: str, said: str) -> None:
    with pytest.raises(Refusal) as found:
        read_people(written(tmp_path, table))
    assert found.value.field.endswith(field)
    assert said in found.value.line


def test_passwords_go_to_a_new_file_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "passwords.csv"
    before = os.umask(0)
    try:
        PasswordFile(str(path)).write([["name", "full_name"], ["ana", "=cmd()"]])
    finally:
        os.umask(before)

    assert path.stat().st_mode & 0o777 == 0o600
    assert path.read_text("utf-8-sig").splitlines() == ["name,full_name", "ana,'=cmd()"]
    with pytest.raises(Refusal):
        PasswordFile(str(path))
    other = PasswordFile(str(tmp_path / "none.csv"))
    other.drop()
    assert not (tmp_path / "none.csv").exists()
