"""A list of people as a table: what Excel or WPS saves as CSV, with English or Chinese headings.

Read as UTF-8 (with or without a mark), UTF-16 or GBK, whichever it is; comma, semicolon or tab.
Whatever is wrong is refused with its line and column before anything is sent. What is written holds
one-time passwords: nobody else can read it, and no file is replaced.
"""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Iterable, Sequence
from datetime import date
from typing import NamedTuple

from .say import refuse

COLUMNS: dict[str, tuple[str, ...]] = {
    "name": ("账号", "帐号", "用户名"),
    "full_name": ("姓名", "full name"),
    "student_id": ("学号", "工号", "student id"),
    "supervisor": ("导师", "advisor"),
    "email": ("邮箱", "电子邮箱", "e-mail"),
    "expires": ("有效期", "到期日"),
    "team": ("组", "课题组"),
}
"""What a column may be called; its own name counts too."""
MOST_BYTES = 4 << 20
_DAY = re.compile(r"(\d{4})[-/.年](\d{1,2})[-/.月](\d{1,2})日?", re.ASCII)
_FORMULA = ("=", "+", "-", "@", "\t")


class Row(NamedTuple):
    line: int
    values: dict[str, str | date]


def read_people(path: str) -> list[Row]:
    """The people in this file. Refuses what is no such list."""
    with open(path, "rb") as file:
        raw = file.read(MOST_BYTES + 1)
    if len(raw) > MOST_BYTES:
        refuse("people.file_large", path, most=MOST_BYTES >> 20)
    reader = csv.reader(io.StringIO(_decoded(raw), newline=""), delimiter=_delimiter(raw))
    columns: list[str] = []
    rows: list[Row] = []
    for cells in reader:
        texts = [cell.strip() for cell in cells]
        if not any(texts):
            continue
        if not columns:
            columns = _columns(path, texts)
        else:
            rows.append(Row(reader.line_num, _values(path, reader.line_num, columns, texts)))
    if not rows:
        refuse("people.file_empty", path, columns=",".join(COLUMNS))
    return rows


class PasswordFile:
    """A new file for passwords, made before there are any: they are shown only once."""

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            made = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            refuse("people.out_exists", "out", path=path)
        self._file = open(made, "w", encoding="utf-8-sig", newline="")  # noqa: SIM115 - closed by write, drop

    def write(self, rows: Iterable[Sequence[str]]) -> None:
        """All of it, on disk."""
        with self._file as file:
            csv.writer(file).writerows([_harmless(cell) for cell in row] for row in rows)
            file.flush()
            os.fsync(file.fileno())

    def drop(self) -> None:
        """There are no passwords after all."""
        self._file.close()
        os.unlink(self.path)


def _decoded(raw: bytes) -> str:
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        return raw.decode("utf-16", "replace")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return raw.decode("gb18030", "replace")  # what Excel saves on a Chinese Windows


def _delimiter(raw: bytes) -> str:
    """What stands between the headings."""
    first = next((line for line in _decoded(raw).splitlines() if line.strip()), "")
    return max(",\t;，", key=first.count)


def _columns(path: str, headings: list[str]) -> list[str]:
    found = [_column(path, heading) for heading in headings]
    for name in filter(None, found):
        if found.count(name) > 1:
            refuse("people.column_twice", f"{path}:1", column=name)
    if "name" not in found:
        refuse("people.no_name_column", f"{path}:1", columns=",".join(COLUMNS))
    return found


def _column(path: str, heading: str) -> str:
    plain = heading.lower()
    for name, others in COLUMNS.items():
        if plain == name or plain in others:
            return name
    if heading:
        refuse("people.column_unknown", f"{path}:1", column=heading, columns=",".join(COLUMNS))
    return ""


def _values(path: str, line: int, columns: list[str], cells: list[str]) -> dict[str, str | date]:
    if any(cells[len(columns) :]):
        refuse("people.too_many_cells", f"{path}:{line}")
    values: dict[str, str | date] = {
        name: cell for name, cell in zip(columns, cells, strict=False) if name and cell
    }
    if "name" not in values:
        refuse("people.no_name", f"{path}:{line}: name")
    expires = values.get("expires")
    if isinstance(expires, str):
        values["expires"] = _day(expires, f"{path}:{line}: expires")
    return values


def _day(text: str, field: str) -> date:
    found = _DAY.fullmatch(text)
    try:
        if found is None:
            raise ValueError
        return date(int(found[1]), int(found[2]), int(found[3]))
    except ValueError:
        refuse("people.not_a_day", field, value=text)


def _harmless(cell: str) -> str:
    """A table program would run what begins so."""
    return f"'{cell}" if cell.startswith(_FORMULA) else cell
