"""Who may do what: the one place where a declared route meets the caller.

Owners and admins act. Others see what the lab lets them see, are told that a thing is not theirs
when they may know of it, and that there is none when they may not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from stoker.domain.errors import NotAllowed, UnknownTask
from stoker.domain.person import ScopeName
from stoker.store.base import Act

if TYPE_CHECKING:
    from .route import Call

Access = Literal["open", "person", "admin"]
"""Anybody at all; everybody who is known; admins only."""
OnTask = Literal["see", "read", "act"]
"""What is done to the task in the path: look at what all may see, read what is private, change it."""


async def permit(
    access: Access, scope: ScopeName, verb: OnTask | None, name: str, call: Call[Any, Any]
) -> None:
    """The one place that says who may do what. Raises NotAllowed, or UnknownTask for what the caller
    may not even know of."""
    who = call.who
    if scope not in who.scopes:
        if scope == "admin" and who.person.role != "admin":  # no token of his would do
            raise NotAllowed("admins_only")
        raise NotAllowed("missing_scope", scope=scope)
    if who.person.must_change and scope != "account":
        raise NotAllowed("password_must_change")
    if access == "admin":
        if not who.is_admin:
            raise NotAllowed("admins_only")
        if not who.is_fresh and call.scope["method"] != "GET":  # type: ignore[typeddict-item]
            raise NotAllowed("password_again")
    if verb is not None and not (who.is_admin and verb != "act"):
        await _permit_on_task(verb, name, call)


def act_of(name: str) -> str:
    """What the audit trail calls what an admin does with others' tasks by the route of this name:
    `task.cancel` for `cancel_task`."""
    return "task." + name.removesuffix("_task").replace("_", ".")


async def _permit_on_task(verb: OnTask, name: str, call: Call[Any, Any]) -> None:
    who, owner = call.who, (await call.task()).owner
    if owner == who.name:
        return
    if who.is_admin:
        if not who.is_fresh:
            raise NotAllowed("password_again")
        # known before it is done: whatever becomes of it, it can be asked about
        on, act = f"task {call.key} of {owner}", act_of(name)
        at, book = call.parts.flow.clock.now(), call.parts.flow.book
        await book.note(Act(at=at, who=who.name, act=act, on=on, origin=who.origin))
    elif not call.sight.may_know(owner):
        raise UnknownTask(id=str(call.key))
    elif verb != "see":
        raise NotAllowed("not_yours", id=str(call.key), owner=owner)
