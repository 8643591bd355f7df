"""`stoker team`: people who share a quota and may be let into a queue together."""

from __future__ import annotations

import sys

import click
import msgspec
from msgspec import structs

from stoker.domain.queue import TeamTerms
from stoker.wire_queues import TeamView

from .client import Client
from .command import CONTEXT, Command, Group, json_option, option
from .command import command as declare
from .options import Whole
from .queue_terms import NONE, OrNone, joined
from .say import refuse, refuse_code, tell, words
from .screen import clean, table, terminal_width


class Teams(Group, Command):
    """`team` has commands of its own."""


class ListTeams(Command):
    key = "team-ls"


class AddTeam(Command):
    key = "team-add"


class EditTeam(Command):
    key = "team-edit"


class RemoveTeam(Command):
    key = "team-rm"


@declare("ls", cls=ListTeams)
@json_option
def list_command(as_json: bool) -> None:
    with Client() as client:
        found = client.teams()
    if as_json:
        _write(found)
        return
    if not found:
        tell("team.none")
        return
    head = [words(f"team.{name}") for name in ("name", "cards", "members")]
    rows = [head, *map(_row, found)]
    for line in table(rows, colours=[["dim"] * 3], columns=terminal_width(), wrapped=True):
        print(line)


@declare("add", cls=AddTeam)
@click.argument("name", metavar="NAME")
@option("--about", metavar="TEXT", default="", help="opt.team-about")
@option("--most-cards", type=Whole(), default=None, help="opt.team-most-cards")
@option("--add", "add", metavar="PERSON", multiple=True, help="opt.team-add")
@json_option
def add_command(
    name: str, about: str, most_cards: int | None, add: tuple[str, ...], as_json: bool
) -> None:
    with Client() as client:
        made = client.put_team(name, TeamTerms(about=about, most_cards=most_cards), 0)
        if add:
            made = client.change_members(name, add=_names(add))
    _told("team.added", made, as_json)


@declare("edit", cls=EditTeam)
@click.argument("team", metavar="TEAM")
@option("--add", "add", metavar="PERSON", multiple=True, help="opt.team-add")
@option("--remove", "remove", metavar="PERSON", multiple=True, help="opt.team-remove")
@option("--about", metavar="TEXT", default=None, help="opt.team-about")
@option("--most-cards", type=OrNone(Whole()), default=None, help="opt.team-most-cards")
@json_option
def edit_command(
    team: str,
    *,
    add: tuple[str, ...],
    remove: tuple[str, ...],
    about: str | None,
    most_cards: int | str | None,
    as_json: bool,
) -> None:
    if not (add or remove) and about is None and most_cards is None:
        refuse("team.same")
    with Client() as client:
        shown = find(client, team)
        if about is not None or most_cards is not None:
            terms = TeamTerms(about=shown.about, most_cards=shown.most_cards)
            if about is not None:
                terms = structs.replace(terms, about=about)
            if most_cards is not None:
                terms = structs.replace(
                    terms, most_cards=None if most_cards == NONE else most_cards
                )
            shown = client.put_team(team, terms, shown.version)
        if add or remove:
            shown = client.change_members(team, add=_names(add), remove=_names(remove))
    _told("team.changed", shown, as_json)


@declare("rm", cls=RemoveTeam)
@click.argument("team", metavar="TEAM")
@json_option
def remove_command(team: str, as_json: bool) -> None:
    with Client() as client:
        gone = client.remove_team(team)
    if as_json:
        _write(gone)
    elif gone.members:
        tell("team.removed_members", name=gone.name, names=joined(gone.members))
    else:
        tell("team.removed", name=gone.name)


@click.group("team", cls=Teams, invoke_without_command=True, context_settings=CONTEXT)
@click.pass_context
def command(ctx: click.Context) -> None:
    if ctx.invoked_subcommand is None:
        print(ctx.get_help())


for below in (list_command, add_command, edit_command, remove_command):
    command.add_command(below)


def find(client: Client, name: str) -> TeamView:
    """The team as it is now."""
    found = next((team for team in client.teams() if team.name == name), None)
    if found is None:
        refuse_code("no_such_team", team=name)
    return found


def _names(given: tuple[str, ...]) -> list[str]:
    """`--add ana --add bo` and `--add ana,bo` mean the same."""
    return [name for one in given for name in one.split(",") if name]


def _row(team: TeamView) -> list[str]:
    most = team.most_cards
    held = str(team.cards) if most is None else words("queue.of", held=team.cards, most=most)
    return [clean(team.name), held, joined(team.members) or "-"]


def _told(key: str, team: TeamView, as_json: bool) -> None:
    if as_json:
        _write(team)
    else:
        tell(key, name=team.name)


def _write(value: object) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(value) + b"\n")
