"""Oneself: who the server takes me for, my settings, my password."""

from __future__ import annotations

from typing import Any

from stoker.access.caller import the_one
from stoker.access.settings import change_settings
from stoker.access.tokens import FRESH, csrf_of
from stoker.domain.person import SCOPES
from stoker.wire_access import (
    Confirmation,
    Me,
    MyWish,
    PasswordWish,
    Revoked,
)

from .cookies import session_of
from .front import warning_on
from .login import check_somebody, the_login
from .query import NoQuery
from .route import Call, route


@route("GET", "/me", access="person", scope="account", answer=Me)
async def show_me(call: Call[NoQuery, None]) -> Me:
    """Who I am here, and what this token or session is good for."""
    return _me(call)


@route("PUT", "/me", access="person", scope="account", body=MyWish, answer=Me, refusals=(409,))
async def change_me(call: Call[NoQuery, MyWish]) -> Me:
    """Change my own settings. What the body leaves out stays as it is."""
    check_somebody(call)
    flow = call.parts.flow
    await change_settings(flow.book, flow.clock, call.who, call.body)
    return _me(call)


@route(
    "PUT",
    "/me/password",
    access="person",
    scope="account",
    body=PasswordWish,
    answer=Revoked,
    refusals=(409, 429),
)
async def change_password(call: Call[NoQuery, PasswordWish]) -> Revoked:
    """Choose another password. Everything else that I am logged in with ends at once."""
    login, wish = the_login(call), call.body
    check_somebody(call, logged_in=True)
    revoked = await login.change_password(call.who, wish.old, wish.new)
    return Revoked(revoked=tuple(revoked))


@route(
    "POST",
    "/me/confirm",
    access="person",
    scope="account",
    body=Confirmation,
    answer=Me,
    refusals=(409, 429),
)
async def confirm_me(call: Call[NoQuery, Confirmation]) -> Me:
    """Give the password again: admin acts ask for it after 15 minutes."""
    login = the_login(call)
    check_somebody(call, logged_in=True)
    await login.confirm(call.who, call.body.password)
    return _me(call)


ROUTES = (show_me, change_me, change_password, confirm_me)


def _me(call: Call[Any, Any]) -> Me:
    """As things are now: the call itself may have changed them."""
    who, parts = call.who, call.parts
    book, now = parts.flow.book, parts.flow.clock.now()
    credential = book.credentials.get(who.credential)
    person = book.people.get(who.name, who.person)
    is_session = credential is not None and credential.kind == "session"
    session = session_of(call.scope, plain_http=parts.plain_http) if is_session else None
    given = None if credential is None else credential.password_at
    return Me(
        person=person if parts.mode == "lab" else the_one(who.name, person).person,
        mode=parts.mode,
        scopes=tuple(scope for scope in SCOPES if scope in who.scopes),
        kind="session" if is_session else "token",
        csrf=None if session is None else csrf_of(session),
        expires_at=None if credential is None else credential.expires_at,
        fresh=given is None or now - given < FRESH,
        warning=warning_on(call.scope, call.language),
    )
