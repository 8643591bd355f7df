"""`stoker notify`: how you are told what becomes of your tasks.

What is secret (a webhook's address, a password) is asked for or read from standard input, never
typed as an argument, where everybody on the machine could read it.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click
import msgspec

from .client import Client
from .command import CONTEXT, Command, Group, heading, json_option, option
from .command import command as declare
from .options import Whole
from .say import refuse, tell, words
from .screen import clean, colour, table, terminal_width
from .shown import clock

if TYPE_CHECKING:
    from stoker.wire_notices import ChannelView, MailView, NoticeView

MAIL = "mail"
MOST_SHOWN = 10


class Notify(Group, Command):
    """`notify` has commands of its own."""


class Ls(Command):
    key = "notify-ls"


class Set(Command):
    key = "notify-set"


class Rm(Command):
    key = "notify-rm"


class Test(Command):
    key = "notify-test"


class On(Command):
    key = "notify-on"


class Off(Command):
    key = "notify-off"


class MailServer(Command):
    key = "notify-mail"


@declare("ls", cls=Ls)
@json_option
def ls(as_json: bool) -> None:
    with Client() as client:
        channels, wishes, notices = client.channels(), client.wishes(), client.notices()
    if as_json:
        _print_json({"channels": channels, "notify": wishes, "notices": notices})
        return
    _show_channels(channels)
    _show_wishes(wishes)
    print()
    if not notices:
        tell("notify.nothing_lately")
        return
    print(heading("notify.lately"))
    for line in table(
        [_notice(one) for one in notices[:MOST_SHOWN]],
        indent="  ",
        columns=terminal_width(),
        wrapped=True,
    ):
        print(line)


@declare("set", cls=Set)
@click.argument("channel", metavar="CHANNEL")
@json_option
def set_channel(channel: str, as_json: bool) -> None:
    if channel == MAIL:
        url = _given(words("notify.ask_address"), hidden=False)
    else:
        url = _given(words("notify.ask_url", channel=channel), hidden=True)
    if not url:
        refuse("notify.no_input", field="url")
    with Client() as client:
        view, wishes = client.set_channel(channel, url), client.wishes()
    if as_json:
        _print_json(view)
        return
    if view.name == MAIL:
        tell("notify.set_mail", address=view.host)
    else:
        tell("notify.set", channel=view.name, service=view.service, host=view.host)
    if view.problem:
        print("  " + colour(clean(view.problem), "yellow"))
    _show_wishes(wishes)


@declare("rm", cls=Rm)
@click.argument("channel", metavar="CHANNEL")
@json_option
def rm(channel: str, as_json: bool) -> None:
    with Client() as client:
        left = client.remove_channel(channel)
    if as_json:
        _print_json(left)
    else:
        tell("notify.removed", channel=channel)


@declare("test", cls=Test)
@click.argument("channel", metavar="[CHANNEL]", default="")
@json_option
def test(channel: str, as_json: bool) -> int:
    with Client(timeout_s=60) as client:
        names = [channel] if channel else [one.name for one in client.channels()]
        if not names:
            refuse("notify.no_test")
        tried = [client.test_channel(name) for name in names]
    if as_json:
        _print_json(tried)
    else:
        for one in tried:
            sent = one.state == "sent"
            key = "notify.tested" if sent else "notify.test_failed"
            print(words(key, channel=one.channel, **({} if sent else {"why": one.why or "?"})))
    return 0 if all(one.state == "sent" for one in tried) else 1


@declare("on", cls=On)
@click.argument("kinds", metavar="KIND[,KIND...]")
@json_option
def on(kinds: str, as_json: bool) -> None:
    wanted = _split(kinds)
    with Client() as client:
        before = [] if "none" in wanted else [one for one in client.wishes() if one != "none"]
        wishes = client.set_wishes([*before, *(one for one in wanted if one not in before)])
    _answer(wishes, as_json)


@declare("off", cls=Off)
@click.argument("kinds", metavar="[KIND[,KIND...]]", default="all")
@json_option
def off(kinds: str, as_json: bool) -> None:
    gone = _split(kinds)
    with Client() as client:
        left = [one for one in client.wishes() if "all" not in gone and one not in gone]
        wishes = client.set_wishes(left)
    _answer(wishes, as_json)


@declare("mail", cls=MailServer)
@option("--host", metavar="HOST", default="", help="opt.mail-host")
@option("--port", type=Whole(), help="opt.mail-port")
@option("--tls", metavar="starttls|tls|none", default="starttls", help="opt.mail-tls")
@option("--user", metavar="USER", default="", help="opt.mail-user")
@option("--sender", metavar="ADDRESS", default="", help="opt.mail-sender")
@option("--remove", is_flag=True, help="opt.mail-remove")
@json_option
def mail(
    *, host: str, port: int | None, tls: str, user: str, sender: str, remove: bool, as_json: bool
) -> None:
    from stoker.wire_notices import MailWish

    with Client() as client:
        if remove:
            client.remove_mail_server()
            view = None
        elif not host:
            view = client.mail_server()
        else:
            from_address = sender or (user if "@" in user else "")
            if not from_address:
                refuse("notify.needs_sender", field="sender")
            password = _given(words("notify.ask_password"), hidden=True) if user else ""
            wish = MailWish(
                host=host, port=port, tls=tls, user=user, sender=from_address, password=password,  # type: ignore[arg-type]  # said by the server
            )  # fmt: skip
            view = client.set_mail_server(wish)
    if as_json:
        _print_json(view)
    else:
        _show_server(view, removed=remove, was_set=bool(host))


@click.group("notify", cls=Notify, invoke_without_command=True, context_settings=CONTEXT)
@click.pass_context
def command(ctx: click.Context) -> None:
    if ctx.invoked_subcommand is None:
        print(ctx.get_help())


for _one in (ls, set_channel, rm, test, on, off, mail):
    command.add_command(_one)


def _given(question: str, *, hidden: bool) -> str:
    """Asked at a terminal; else the first line of standard input."""
    if sys.stdin.isatty():
        answer: str = click.prompt(
            question, hide_input=hidden, default="", show_default=False, err=True
        )
        return answer.strip()
    return sys.stdin.readline().strip()


def _split(kinds: str) -> list[str]:
    return [one.strip() for one in kinds.split(",") if one.strip()]


def _answer(wishes: tuple[str, ...], as_json: bool) -> None:
    if as_json:
        _print_json({"notify": wishes})
    else:
        _show_wishes(wishes)


def _show_channels(channels: list[ChannelView]) -> None:
    if not channels:
        tell("notify.no_channels")
        return
    print(heading("notify.channels"))
    rows = [
        [
            clean(one.name),
            clean(one.service),
            clean(one.host),
            words("notify.broken", why=one.problem) if one.problem else "",
        ]
        for one in channels
    ]
    for line in table(rows, indent="  ", columns=terminal_width(), wrapped=True):
        print(line)


def _show_wishes(wishes: tuple[str, ...]) -> None:
    if wishes:
        tell("notify.wishes", wishes=", ".join(wishes))
    else:
        tell("notify.no_wishes")


def _show_server(view: MailView | None, *, removed: bool, was_set: bool) -> None:
    if removed:
        tell("notify.server_removed")
    elif view is None:
        tell("notify.no_server")
    else:
        key = "notify.server_set" if was_set else "notify.server"
        known = {"host": view.host, "port": view.port, "sender": view.sender}
        more = {} if was_set else {"tls": view.tls, "user": view.user or "-"}
        print(words(key, **known, **more))
        if view.problem:
            print("  " + colour(clean(view.problem), "yellow"))


def _notice(one: NoticeView) -> list[str]:
    why = {"why": one.why or "?"} if one.state == "failed" else {}
    state = words(f"notify.{one.state}", **why)
    return [clock(one.at), clean(one.channel), f"{clean(one.subject)}: {state}"]


def _print_json(value: Any) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(value) + b"\n")
