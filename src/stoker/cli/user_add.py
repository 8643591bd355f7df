"""`stoker user add`: one person, several by name, or a whole class from a table."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from datetime import date
from typing import Any, NoReturn

import click
import msgspec

from stoker.client import Refused
from stoker.wire_people import MOST_PEOPLE, AddedPerson, NewPerson

from .client import Client
from .command import Command, json_option, option
from .command import command as declare
from .options import Whole
from .people import Day
from .people_file import PasswordFile, Row, read_people
from .say import Refusal, refuse, tell, warn, words
from .screen import clean, table

OF_ONE = ("full_name", "student_id", "email", "account")
"""What no two people have in common."""
PATIENCE_S = 300.0
"""Each password takes the server a moment."""
_PLACE = re.compile(r"people\[([0-9]+)\]\.?(.*)")


class Add(Command):
    key = "user_add"


@declare("add", cls=Add)
@click.argument("people", metavar="[NAME...]", nargs=-1)
@option("--file", "path", metavar="FILE", default="", help="people.opt_file")
@option("--out", metavar="FILE", default="", help="people.opt_out")
@option("--full-name", metavar="TEXT", help="people.opt_full_name")
@option("--student-id", metavar="TEXT", help="people.opt_student_id")
@option("--supervisor", metavar="TEXT", help="people.opt_supervisor")
@option("--email", metavar="ADDRESS", help="people.opt_email")
@option("--expires", type=Day(), metavar="DAY", help="people.opt_expires")
@option("--team", metavar="TEAM", help="people.opt_team")
@option("--weight", type=Whole(), help="people.opt_weight")
@option("--role", metavar="user|admin", help="people.opt_role")
@option("--login", metavar="own|system", help="people.opt_login")
@option("--account", metavar="ACCOUNT", help="people.opt_account")
@option("--share-account", is_flag=True, help="people.opt_share")
@json_option
def add(
    people: tuple[str, ...], path: str, out: str, share_account: bool, as_json: bool, **given: Any
) -> None:
    shared = {key: value for key, value in given.items() if value not in (None, "never")}
    rows = _rows(people, path, shared)
    newcomers = [_newcomer(shared | row.values) for row in rows]
    kept = PasswordFile(out) if out else None
    try:
        with Client(timeout_s=PATIENCE_S) as client:
            added = client.add_people(newcomers, share_account=share_account)
    except BaseException as error:
        if kept is not None:
            kept.drop()
        if isinstance(error, Refused):
            _say_where(error, rows, path)
        raise
    if kept is not None:
        kept.write(_table(added))
    _show(added, out, as_json)


def _rows(people: tuple[str, ...], path: str, shared: dict[str, Any]) -> list[Row]:
    if bool(people) == bool(path):
        refuse("people.names_or_file", "name")
    rows = read_people(path) if path else [Row(0, {"name": name}) for name in people]
    own = next((name for name in OF_ONE if name in shared), "")
    if own and (path or len(rows) > 1):
        refuse("people.of_one", own)
    if len(rows) > MOST_PEOPLE:
        refuse("people.too_many", path or "name", most=MOST_PEOPLE)
    return rows


def _newcomer(values: dict[str, str | date | int]) -> NewPerson:
    return NewPerson(**values)  # type: ignore[arg-type]


def _say_where(error: Refused, rows: Sequence[Row], path: str) -> NoReturn:
    """The server counts from 0; a person looks for a line or a name."""
    place = _PLACE.fullmatch(error.field or "")
    if place is None or int(place[1]) >= len(rows):
        raise error
    row = rows[int(place[1])]
    where = f"{path}:{row.line}" if path else str(row.values["name"])
    said = f"{error.message} {error.hint}" if error.hint else error.message
    raise Refusal(clean(said), f"{where}: {place[2]}" if place[2] else where) from error


def _table(added: Sequence[AddedPerson]) -> list[list[str]]:
    names = [words(f"people.col_{name}") for name in ("name", "full_name", "one_time")]
    return [names, *([a.person.name, a.person.full_name, a.one_time_password or ""] for a in added)]


def _show(added: Sequence[AddedPerson], out: str, as_json: bool) -> None:
    made = any(one.one_time_password for one in added)
    if as_json:
        sys.stdout.buffer.write(msgspec.json.encode(added) + b"\n")
    elif out:
        tell("people.added_to", count=len(added), path=out)
    else:
        rows = _table(added)
        # the name may be wide; the password is what is copied
        for line in table([[clean(row[0]), row[2] or "-", clean(row[1])] for row in rows]):
            print(line)
    if made:
        warn("people.once")
