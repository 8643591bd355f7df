"""Coming in and going out. `POST /login` is open to all; what it costs to try is in access.

A browser gets a session as a cookie that no script can read; everybody else gets a token. The
refusal `wrong_password` is a 403, not a 401: it says nothing about the token or session that a
request came with.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from stoker.access.issue import Issued, log_out
from stoker.access.login import SESSION, Login
from stoker.access.tokens import csrf_of, public_id
from stoker.domain.errors import AppError, Conflict, EngineError, InvalidSpec, NotAllowed
from stoker.domain.person import Person
from stoker.flow.context import Flow
from stoker.wire_access import LoggedIn, LoginWish, Revoked

from .answer import Answer, json_answer
from .cookies import cookie_name, session_of, set_cookie
from .front import warning_on
from .query import NoQuery
from .route import Call, route

log = logging.getLogger("stoker.api")

VERB = "login"
RUNNERS_OWN = ""
PATIENCE_S = 15.0
"""A system takes a few seconds to say that a password is wrong."""
AGAINST = {
    "wrong_password": "wrong_password",
    "no_account": "wrong_password",
    "account_locked": "unix_account_locked",
    "account_expired": "unix_account_expired",
    "not_allowed": "unix_account_not_allowed",
}
"""What the system may have against an account, and our word for it. That there is no such account
is told to nobody but the log. Any other word means that this node cannot say."""


@route(
    "POST",
    "/login",
    access="open",
    body=LoginWish,
    answer=LoggedIn,
    refusals=(409, 429),
)
async def log_in(call: Call[NoQuery, LoginWish]) -> Answer:
    """Log in with a name and its password, or with a one-time code: a token, or a session as a
    cookie. A wrong password is answered 403, one try too many 429."""
    login, wish = the_login(call), call.body
    cookie = _cookie_for(call) if wish.kind == "session" else None
    client = call.scope.get("client")
    origin = client[0] if client else ""
    before = session_of(call.scope, plain_http=call.parts.plain_http) if cookie else None
    issued = await _let_in(login, wish, origin, before or "")
    told = _told(issued, warning_on(call.scope, call.language), is_session=cookie is not None)
    if cookie is None:
        return json_answer(told)
    return json_answer(told, extra=[set_cookie(cookie, issued.secret, _seconds(SESSION))])


@route(
    "POST",
    "/logout",
    access="person",
    scope="account",
    answer=Revoked,
    refusals=(409,),
)
async def log_out_here(call: Call[NoQuery, None]) -> Answer:
    """The token or session of this call is good for nothing from now on."""
    the_login(call)
    check_somebody(call, logged_in=True)
    book, clock, who = call.parts.flow.book, call.parts.flow.clock, call.who
    await log_out(book, clock, who)
    told = Revoked(revoked=(public_id(who.credential),))
    cookie = cookie_name(call.scope, plain_http=call.parts.plain_http)
    return json_answer(told, extra=[] if cookie is None else [set_cookie(cookie, "", 0)])


ROUTES = (log_in, log_out_here)


def the_login(call: Call[Any, Any]) -> Login:
    """How people come in here. Conflict where nobody needs to."""
    if call.parts.login is None:
        raise Conflict("one_person_mode")
    return call.parts.login


def check_somebody(call: Call[Any, Any], *, logged_in: bool = False) -> None:
    """Refuse the token of a lab's own folder where a person is meant, or one who has `logged_in`:
    it is an admin's, but there may be no person of that name, and none must come to be by this."""
    who, parts = call.who, call.parts
    is_folders = parts.mode == "lab" and not who.credential
    if is_folders and (logged_in or who.name not in parts.flow.book.people):
        raise Conflict("own_token")


async def ask_system(flow: Flow, person: Person, password: str) -> str:
    """What the system has against this password of the person's unix account; "" = nothing. Asks
    the nodes that are up, one after the other, until one answers."""
    if "\0" in password:
        return "wrong_password"
    for node in sorted(name for name, room in flow.view.rooms.items() if room.up):
        args = {"account": person.account_on(node), "password": password}
        try:
            assert flow.calls is not None
            async with asyncio.timeout(PATIENCE_S):
                found = await flow.calls.call(node, RUNNERS_OWN, VERB, args)
        except (EngineError, TimeoutError) as error:
            # never the error itself: a runner may have said more than it should
            code = error.code if isinstance(error, AppError) else "timeout"
            log.warning("event=login_unanswered node=%s code=%s", node, code)
            continue
        code = str(found.get("code", ""))
        if found.get("ok") is True and not code:
            return ""
        if code != "wrong_password":
            log.warning("event=login_refused node=%s person=%s code=%s", node, person.name, code)
        if code in AGAINST:
            return AGAINST[code]
    raise AppError("login_unreachable")


def _cookie_for(call: Call[Any, Any]) -> bytes:
    name = cookie_name(call.scope, plain_http=call.parts.plain_http)
    if name is None:
        raise NotAllowed("needs_tls")
    return name


async def _let_in(login: Login, wish: LoginWish, origin: str, before: str) -> Issued:
    if wish.code is not None:
        if wish.password is not None or wish.name is not None:
            raise InvalidSpec("code_alone", field="code")
        return await login.by_code(
            wish.code, origin, kind=wish.kind, label=wish.label, replaces=before
        )
    for field, value in (("name", wish.name), ("password", wish.password)):
        if value is None:
            raise InvalidSpec("missing_field", field=field, name=field)
    return await login.by_password(
        wish.name or "",
        wish.password or "",
        origin,
        kind=wish.kind,
        label=wish.label,
        replaces=before,
    )


def _told(issued: Issued, warning: str | None, *, is_session: bool) -> LoggedIn:
    return LoggedIn(
        token=None if is_session else issued.secret,
        csrf=csrf_of(issued.secret) if is_session else None,
        person=issued.person,
        expires_at=issued.credential.expires_at,
        must_change=issued.person.must_change,
        warning=warning,
    )


def _seconds(span: Any) -> int:
    return int(span.total_seconds())
