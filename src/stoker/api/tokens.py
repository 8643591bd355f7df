"""Tokens: one's own, for programs; admins may look at everybody's and take them away."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from stoker.access.issue import new_token, revoke, tokens_of
from stoker.domain.errors import NotAllowed
from stoker.domain.person import Credential
from stoker.wire_access import MOST_NAME, Revoked, TokenMade, TokenView, TokenWish

from .login import check_somebody, the_login
from .query import NoQuery, Query
from .route import Call, route


class TokensQuery(Query, frozen=True, kw_only=True):
    person: (
        Annotated[
            str,
            Meta(
                description="Whose; one's own unless an admin asks",
                min_length=1,
                max_length=MOST_NAME,
            ),
        ]
        | None
    ) = None


@route(
    "GET",
    "/tokens",
    access="person",
    scope="account",
    query=TokensQuery,
    answer=list[TokenView],
    refusals=(409,),
)
async def list_tokens(call: Call[TokensQuery, None]) -> list[TokenView]:
    """Tokens and sessions, the newest first. Their texts are never shown again."""
    the_login(call)
    person = call.query.person or call.who.name
    if person != call.who.name and not call.who.is_admin:
        raise NotAllowed("admins_only")
    flow = call.parts.flow
    return [_view(call, id, found) for id, found in tokens_of(flow.book, flow.clock, person)]


@route(
    "POST",
    "/tokens",
    access="person",
    scope="account",
    body=TokenWish,
    status=201,
    answer=TokenMade,
    refusals=(409,),
)
async def make_token(call: Call[NoQuery, TokenWish]) -> TokenMade:
    """A token for a program: good for at most what this call's own is. Shown this once."""
    the_login(call)
    check_somebody(call, logged_in=True)
    if call.who.person.must_change:
        raise NotAllowed("password_must_change")
    flow, wish = call.parts.flow, call.body
    issued = await new_token(
        flow.book, flow.clock, call.who, label=wish.label, scopes=wish.scopes, days=wish.days
    )
    return TokenMade(token=issued.secret, view=_view(call, issued.id, issued.credential))


@route(
    "DELETE",
    "/tokens/{token}",
    access="person",
    scope="account",
    answer=Revoked,
    refusals=(409,),
)
async def revoke_token(call: Call[NoQuery, None]) -> Revoked:
    """A token or session is good for nothing from now on."""
    the_login(call)
    flow, id = call.parts.flow, call.named("token")
    await revoke(flow.book, flow.clock, call.who, id)
    return Revoked(revoked=(id,))


ROUTES = (list_tokens, make_token, revoke_token)


def _view(call: Call[Any, Any], id: str, credential: Credential) -> TokenView:
    return TokenView(
        id=id,
        kind="session" if credential.kind == "session" else "token",
        person=credential.person,
        label=credential.label,
        scopes=credential.scopes,
        created_at=credential.created_at,
        expires_at=credential.expires_at,
        used_at=credential.used_at,
        current=call.who.credential.startswith(id),
    )
