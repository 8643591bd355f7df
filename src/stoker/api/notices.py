"""How people are told: their channels, their wishes, what was sent lately; the lab's mail server.

Everybody sees and changes his own only. A URL or a password goes in and never comes out.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
from typing import Any

from msgspec import structs

from stoker import text
from stoker.domain.errors import InvalidSpec, UnknownChannel
from stoker.domain.notice import MAIL, Channel, MailServer, check_wishes, is_address, is_channel
from stoker.domain.person import Person
from stoker.flow.notify import Notices, Record, split
from stoker.lab.book import Put
from stoker.store.base import Act
from stoker.wire_notices import (
    ChannelView,
    ChannelWish,
    MailState,
    MailView,
    MailWish,
    NoticeView,
    Wishes,
    WishesView,
)

from .login import check_somebody
from .query import NoQuery
from .route import Call, route

PORTS = {"starttls": 587, "tls": 465, "none": 25}
_HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|[0-9A-Fa-f:.]+")


@route("GET", "/me/channels", access="person", scope="account", answer=list[ChannelView])
async def my_channels(call: Call[NoQuery, None]) -> list[ChannelView]:
    """Ways over which you can be told; of their URLs only service and host."""
    person, notices = _person(call), call.parts.notices
    return [await _view(call, notices, person, n) for n in notices.channels.names(person)]


@route(
    "PUT",
    "/me/channels/{channel}",
    access="person",
    scope="account",
    body=ChannelWish,
    answer=ChannelView,
    refusals=(409,),
)
async def set_channel(call: Call[NoQuery, ChannelWish]) -> ChannelView:
    """Set one up, or give it another URL; `mail` is your e-mail address. The URL is kept sealed."""
    check_somebody(call)
    person, notices, name = _person(call), call.parts.notices, _channel(call)
    if name == MAIL:
        address = call.body.url.strip()
        if not is_address(address):
            raise InvalidSpec("bad_email", field="url")
        await notices.channels.set_address(person, address, _act(call, "channel.set", name))
        return await _view(call, notices, _person(call), name)
    if not is_channel(name):
        raise InvalidSpec("bad_channel", field="channel", value=name[:50])
    rules = call.parts.flow.book.rules
    services, local = split(rules.notice_services), split(rules.notice_hosts)
    found = await asyncio.to_thread(notices.sender.examine, call.body.url, services, local)
    value = Channel(service=found.service, host=found.host, set_at=call.parts.flow.clock.now())
    act = _act(call, "channel.set", name, service=found.service, host=found.host)
    await notices.channels.set(_person(call), name, value, found.url, act)
    return await _view(call, notices, person, name)


@route(
    "DELETE",
    "/me/channels/{channel}",
    access="person",
    scope="account",
    answer=list[ChannelView],
    refusals=(409,),
)
async def remove_channel(call: Call[NoQuery, None]) -> list[ChannelView]:
    """You are told over it no longer; answers those that are left."""
    person, notices, name = _person(call), call.parts.notices, _channel(call)
    act = _act(call, "channel.remove", name)
    if name == MAIL and person.email:
        await notices.channels.set_address(person, "", act)
    else:
        await notices.channels.remove(person.name, name, act)
    after = _person(call)
    return [await _view(call, notices, after, n) for n in notices.channels.names(after)]


@route(
    "POST",
    "/me/channels/{channel}/test",
    access="person",
    scope="account",
    answer=NoticeView,
    refusals=(409, 429),
)
async def test_channel(call: Call[NoQuery, None]) -> NoticeView:
    """Send a test over it, now; the answer says whether it arrived, and if not why."""
    record = await call.parts.notices.test(_person(call), _channel(call))
    return _notice(record, call.language)


@route("GET", "/me/notices", access="person", scope="account", answer=list[NoticeView])
async def my_notices(call: Call[NoQuery, None]) -> list[NoticeView]:
    """What you were told since the server was started, the last 50, the newest first."""
    return [_notice(record, call.language) for record in call.parts.notices.recent(call.who.name)]


@route("GET", "/me/notify", access="person", scope="account", answer=WishesView)
async def my_wishes(call: Call[NoQuery, None]) -> WishesView:
    """What you are told of tasks that do not say it themselves."""
    return WishesView(notify=_person(call).notify)


@route(
    "PUT",
    "/me/notify",
    access="person",
    scope="account",
    body=Wishes,
    answer=WishesView,
    refusals=(409,),
)
async def set_wishes(call: Call[NoQuery, Wishes]) -> WishesView:
    """Change that."""
    check_somebody(call)
    wishes = tuple(dict.fromkeys(call.body.notify))
    check_wishes(wishes)
    person = structs.replace(_person(call), notify=wishes)
    act = _act(call, "notify.set", "", notify=", ".join(wishes))
    await call.parts.flow.book.amend([Put("person", person.name, person)], [act])
    return WishesView(notify=wishes)


@route("GET", "/mail", access="admin", scope="admin", answer=MailState)
async def mail_server(call: Call[NoQuery, None]) -> MailState:
    """Who delivers the lab's mail."""
    return MailState(server=await _server(call))


@route(
    "PUT", "/mail", access="admin", scope="admin", body=MailWish, answer=MailState, refusals=(409,)
)
async def set_mail_server(call: Call[NoQuery, MailWish]) -> MailState:
    """Let this one deliver it. The password is kept sealed."""
    wish, channels = call.body, call.parts.notices.channels
    server = MailServer(
        host=wish.host,
        port=wish.port or PORTS[wish.tls],
        tls=wish.tls,
        user=wish.user,
        sender=wish.sender,
    )
    _check_server(server)
    at, who = call.parts.flow.clock.now(), call.who
    values = {"host": server.host, "port": server.port, "tls": server.tls, "user": server.user}
    act = Act(at=at, who=who.name, act="mail.set", on="mail", origin=who.origin, values=values)
    await channels.set_server(server, wish.password if server.user else "", act)
    return MailState(server=await _server(call))


@route("DELETE", "/mail", access="admin", scope="admin", answer=MailState, refusals=(409,))
async def remove_mail_server(call: Call[NoQuery, None]) -> MailState:
    """Nobody is told by mail any more."""
    at, who = call.parts.flow.clock.now(), call.who
    act = Act(at=at, who=who.name, act="mail.remove", on="mail", origin=who.origin)
    await call.parts.notices.channels.remove_server(act)
    return MailState()


ROUTES = (
    my_channels, set_channel, remove_channel, test_channel, my_notices, my_wishes, set_wishes,
    mail_server, set_mail_server, remove_mail_server,
)  # fmt: skip


def _person(call: Call[Any, Any]) -> Person:
    """As the book has him; the one person of a Stoker without a lab gets there when he says something."""
    return call.parts.flow.book.people.get(call.who.name, call.who.person)


def _channel(call: Call[Any, Any]) -> str:
    return call.named("channel")


async def _view(call: Call[Any, Any], notices: Notices, person: Person, name: str) -> ChannelView:
    if name == MAIL:
        problem = await notices.channels.server_problem()
        return ChannelView(
            name=MAIL, service="mail", host=person.email, problem=_sentence(problem, call.language)
        )
    known = notices.channels.of(person.name).get(name)
    if known is None:
        raise UnknownChannel(channel=name[:50])
    problem = await notices.channels.problem(person.name, name)
    return ChannelView(
        name=name,
        service=known.service,
        host=known.host,
        problem=_sentence(problem, call.language),
    )


async def _server(call: Call[Any, Any]) -> MailView | None:
    channels = call.parts.notices.channels
    server = channels.book.mail
    if server is None:
        return None
    return MailView(
        host=server.host,
        port=server.port,
        tls=server.tls,
        user=server.user,
        sender=server.sender,
        has_password=await channels.has_password(),
        problem=_sentence(await channels.server_problem(), call.language),
    )


def _check_server(server: MailServer) -> None:
    if not _HOST.fullmatch(server.host):
        raise InvalidSpec("bad_mail_host", field="host", value=server.host[:100])
    if not is_address(server.sender):
        raise InvalidSpec("bad_email", field="sender")
    if not server.user.isprintable():
        raise InvalidSpec("bad_mail_user", field="user")
    if server.user and server.tls == "none" and not _is_here(server.host):
        raise InvalidSpec("password_in_clear", field="tls")


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _notice(record: Record, language: str) -> NoticeView:
    return NoticeView(
        at=record.at,
        kind=record.kind,
        task=record.task,
        channel=record.channel,
        subject=record.subject,
        state=record.state,
        tries=record.tries,
        why=_sentence(record.why, language, record.values),
    )


def _sentence(code: str, language: str, values: dict[str, Any] | None = None) -> str | None:
    if not code:
        return None
    known = values or {}
    advice = text.hint(code, known, language)
    said = text.message(code, known, language)
    return f"{said} {advice}" if advice else said


def _act(call: Call[Any, Any], act: str, channel: str, **values: Any) -> Act:
    who = call.who
    on = f"channel {who.name}/{channel[:50]}" if channel else f"person {who.name}"
    at = call.parts.flow.clock.now()
    return Act(at=at, who=who.name, act=act, on=on, origin=who.origin, values=values)
