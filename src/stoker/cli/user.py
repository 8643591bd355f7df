"""`stoker user`: the people of a lab, for admins.

One-time passwords are shown once, here and nowhere else. Removing somebody asks what becomes of the
tasks; nobody is removed by a slip.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import click
import msgspec

from stoker.client import Refused
from stoker.wire_people import PersonSettings, PersonView

from .acting import complain, each
from .client import Client
from .command import CONTEXT, Command, Group, json_option, option
from .options import Pair, Whole
from .people import STATE_COLOURS, Day, detail_rows, list_rows
from .say import refuse, tell, warn, words
from .screen import clean, table, terminal_width
from .user_add import add

MOST_COUNTED = 1000
TASKS = ("refuse", "cancel")


class Users(Group, Command):
    """`user` has commands of its own."""


def verb(name: str, **settings: bool) -> Callable[[Callable[..., Any]], Command]:
    """Declares a command of `user`; its help is `help.user_NAME`."""
    kind = type(name.title(), (Command,), {"key": f"user_{name}"})
    return click.command(name, cls=kind, context_settings=CONTEXT | settings)


name_argument = click.argument("name", metavar="NAME")
names_argument = click.argument("people", metavar="NAME...", nargs=-1, required=True)


@verb("ls")
@json_option
def list_people(as_json: bool) -> None:
    with Client() as client:
        found = client.people()
    if as_json:
        sys.stdout.buffer.write(msgspec.json.encode(found) + b"\n")
    elif not found:
        tell("people.nobody")
    else:
        tints = [["bold"] * 8, *(["", "", STATE_COLOURS[one.state], *[""] * 5] for one in found)]
        for line in table(list_rows(found), colours=tints, columns=terminal_width()):
            print(line)


@verb("show")
@name_argument
@json_option
def show(name: str, as_json: bool) -> None:
    with Client() as client:
        _show(client.person(name), as_json)


@verb("edit")
@name_argument
@option("--full-name", metavar="TEXT", help="people.opt_full_name")
@option("--student-id", metavar="TEXT", help="people.opt_student_id")
@option("--supervisor", metavar="TEXT", help="people.opt_supervisor")
@option("--email", metavar="ADDRESS", help="people.opt_email")
@option("--expires", type=Day(), metavar="DAY", help="people.opt_expires")
@option("--team", metavar="TEAM", help="people.opt_team")
@option("--weight", type=Whole(), help="people.opt_weight")
@option("--most-cards", metavar="N", help="people.opt_most_cards")
@option("--role", metavar="user|admin", help="people.opt_role")
@option("--login", metavar="own|system", help="people.opt_login")
@option("--account", metavar="ACCOUNT", help="people.opt_account")
@option("--node-account", type=Pair(), multiple=True, help="people.opt_node_account")
@option("--share-account", is_flag=True, help="people.opt_share")
@json_option
def edit(
    name: str, node_account: tuple[tuple[str, str], ...], share_account: bool, as_json: bool,
    **given: Any,
) -> None:  # fmt: skip
    changed = {key: value for key, value in given.items() if value is not None}
    if changed.get("expires") == "never":
        changed["expires"] = None
    if "most_cards" in changed:
        changed["most_cards"] = _cards(changed["most_cards"])
    if not changed and not node_account:
        refuse("people.nothing_to_change")
    with Client() as client:
        before = client.person(name)
        if node_account:
            mapped = before.accounts | dict(node_account)
            changed["accounts"] = {node: account for node, account in mapped.items() if account}
        after = _change(client, before, share_account=share_account, **changed)
        _show(after, as_json)
        if after.login == "own" and before.login == "system":
            warn("people.needs_password", name=name)


@verb("role")
@name_argument
@click.argument("role", metavar="user|admin")
@json_option
def set_role(name: str, role: str, as_json: bool) -> None:
    with Client() as client:
        after = _change(client, client.person(name), role=role)
    _say(after, as_json, "people.role_is", role=words(f"people.role_{after.role}"))


@verb("weight", ignore_unknown_options=True)  # -1 is no option
@name_argument
@click.argument("weight", metavar="N", type=Whole())
@json_option
def set_weight(name: str, weight: int, as_json: bool) -> None:
    with Client() as client:
        after = _change(client, client.person(name), weight=weight)
    _say(after, as_json, "people.weight_is", weight=after.weight)


@verb("lock")
@names_argument
@json_option
def lock(people: tuple[str, ...], as_json: bool) -> int:
    with Client() as client:
        return each(people, client.lock_person, partial(_line, "people.locked"), as_json)


@verb("unlock")
@names_argument
@json_option
def unlock(people: tuple[str, ...], as_json: bool) -> int:
    with Client() as client:
        return each(people, client.unlock_person, partial(_line, "people.unlocked"), as_json)


@verb("passwd")
@name_argument
@json_option
def reset_password(name: str, as_json: bool) -> None:
    with Client() as client:
        made = client.reset_password(name)
    if as_json:
        sys.stdout.buffer.write(msgspec.json.encode(made) + b"\n")
        return
    print(made.one_time_password)
    warn("people.password_reset", name=name)


@verb("code")
@name_argument
@json_option
def new_code(name: str, as_json: bool) -> None:
    with Client() as client:
        made = client.new_code(name)
    if as_json:
        sys.stdout.buffer.write(msgspec.json.encode(made) + b"\n")
        return
    print(made.code)
    until = "-" if made.expires_at is None else f"{made.expires_at.astimezone():%Y-%m-%d %H:%M}"
    warn("people.code_made", name=name, until=until)


@verb("rm")
@names_argument
@option("--tasks", metavar="|".join(TASKS), default=None, help="people.opt_tasks")
@option("-y", "--yes", is_flag=True)
@json_option
def remove(people: tuple[str, ...], tasks: str | None, yes: bool, as_json: bool) -> int:
    if tasks is not None and tasks not in TASKS:
        refuse("people.bad_tasks", "tasks", choices=", ".join(TASKS))
    if not yes and (as_json or not sys.stdin.isatty()):
        refuse("people.needs_yes")
    gone, code = [], 0
    with Client() as client:
        for name in dict.fromkeys(people):
            try:
                chosen = tasks if yes else _ask(client, name, tasks)
                done = client.remove_person(
                    name, tasks="cancel" if chosen == "cancel" else "refuse"
                )
            except Refused as error:
                complain(name, error)
                code = 2
                continue
            gone.append(done)
            if not as_json:
                tell("people.removed", name=done.removed, count=done.cancelled)
    if as_json:
        sys.stdout.buffer.write(msgspec.json.encode(gone) + b"\n")
    return code


@click.group("user", cls=Users, invoke_without_command=True, context_settings=CONTEXT)
@click.pass_context
def command(ctx: click.Context) -> None:
    if ctx.invoked_subcommand is None:
        print(ctx.get_help())


for one in (
    list_people, show, add, edit, lock, unlock, remove, reset_password, set_role, set_weight,
    new_code,
):  # fmt: skip
    command.add_command(one)


# ---- what they do


def _change(
    client: Client, before: PersonView, *, share_account: bool = False, **changed: object
) -> PersonView:
    settings = {name: getattr(before, name) for name in PersonSettings.__struct_fields__}
    return client.change_person(
        before.name,
        PersonSettings(**settings | changed),
        before.version,
        share_account=share_account,
    )


def _cards(text: str) -> int | None:
    if text in ("none", "any"):
        return None
    if not (text.isascii() and text.isdigit()):
        refuse("usage.not_whole", "most_cards", value=text)
    return int(text)


def _ask(client: Client, name: str, tasks: str | None) -> str | None:
    """What becomes of the tasks of somebody who really shall go."""
    person = client.person(name)
    count = _count(client, name)
    print(clean(" ".join(filter(None, [person.name, person.full_name]))))
    if count and tasks is None:
        more = "+" if count == MOST_COUNTED else ""
        click.confirm(words("people.confirm_tasks", count=f"{count}{more}"), abort=True)
        return "cancel"
    click.confirm(words("people.confirm", name=name, count=count), abort=True)
    return tasks


def _count(client: Client, owner: str) -> int:
    found = 0
    for _ in client.tasks(owner=owner, state="unfinished", page=200):
        found += 1
        if found == MOST_COUNTED:
            break
    return found


def _show(person: PersonView, as_json: bool) -> None:
    if as_json:
        sys.stdout.buffer.write(msgspec.json.encode(person) + b"\n")
        return
    for line in table(detail_rows(person), columns=terminal_width(), wrapped=True):
        print(line)


def _say(person: PersonView, as_json: bool, key: str, **values: object) -> None:
    if as_json:
        sys.stdout.buffer.write(msgspec.json.encode(person) + b"\n")
    else:
        tell(key, name=person.name, **values)


def _line(key: str, _: str, person: PersonView) -> str:
    return words(key, name=person.name)
