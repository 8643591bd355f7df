"""`stoker quota`: how many GPUs a person or a team may hold at the same time."""

from __future__ import annotations

import sys

import click
import msgspec
from msgspec import structs

from stoker.domain.queue import TeamTerms

from .client import Client
from .command import CONTEXT, Command, Group, json_option, option
from .command import command as declare
from .queue_terms import NONE
from .say import refuse, tell, words
from .screen import clean, table, terminal_width
from .team import find


class QuotaGroup(Group, Command):
    """`quota` has commands of its own."""


class ListQuotas(Command):
    key = "quota-ls"


class SetQuota(Command):
    key = "quota-set"


@declare("ls", cls=ListQuotas)
@json_option
def list_command(as_json: bool) -> None:
    with Client() as client:
        found = client.quotas()
    if as_json:
        _write(found)
        return
    if not found.people and not found.teams:
        tell("quota.nobody")
        return
    head = [words(f"quota.{name}") for name in ("who", "held", "most", "team")]
    rows = [head]
    rows += [
        [clean(one.person), str(one.cards), _most(one.most_cards), clean(one.team) or "-"]
        for one in found.people
    ]
    rows += [
        [words("quota.of_team", name=one.name), str(one.cards), _most(one.most_cards), "-"]
        for one in found.teams
    ]
    for line in table(rows, colours=[["dim"] * 4], columns=terminal_width()):
        print(line)


@declare("set", cls=SetQuota)
@click.argument("name", metavar="NAME")
@click.argument("cards", metavar=f"CARDS|{NONE}")
@option("--team", "is_team", is_flag=True, help="opt.quota-team")
@json_option
def set_command(name: str, cards: str, is_team: bool, as_json: bool) -> None:
    most = _cards(cards)
    with Client() as client:
        if is_team:
            before = find(client, name)
            terms = structs.replace(TeamTerms(about=before.about), most_cards=most)
            team = client.put_team(name, terms, before.version)
            held, shown = team.cards, msgspec.json.encode(team)
        else:
            quota = client.set_quota(name, most)
            held, shown = quota.cards, msgspec.json.encode(quota)
    if as_json:
        sys.stdout.buffer.write(shown + b"\n")
        return
    whose = "team" if is_team else "person"
    if most is None:
        tell(f"quota.unset_{whose}", name=name)
    else:
        tell(f"quota.set_{whose}", name=name, most=most, held=held)


@click.group("quota", cls=QuotaGroup, invoke_without_command=True, context_settings=CONTEXT)
@click.pass_context
def command(ctx: click.Context) -> None:
    if ctx.invoked_subcommand is None:
        print(ctx.get_help())


command.add_command(list_command)
command.add_command(set_command)


def _cards(text: str) -> int | None:
    if text == NONE:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        refuse("quota.bad_cards", field="CARDS", value=text)
    return int(text)


def _most(most: int | None) -> str:
    return words("quota.no_limit") if most is None else str(most)


def _write(value: object) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(value) + b"\n")
