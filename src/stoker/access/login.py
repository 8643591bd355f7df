"""How somebody comes in: by a password kept here, by that of the system, or by a one-time code.

A name that nobody has and a password that is wrong are refused alike, at the same price. That an
account is locked or expired is told only to who knows its password. What was tried is in the audit
trail when it went well, and when somebody has failed so often that the next try has to wait: no
stranger can fill the trail.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from typing import Literal

from msgspec import structs

from stoker.domain.errors import Conflict, InvalidSpec, NotAllowed, StoreError
from stoker.domain.person import SCOPES, Credential, Person
from stoker.lab.book import ONLY, Book, Put, Remove
from stoker.store.base import Act

from .caller import Caller
from .issue import DAYS, Decision, Issued, fresh_secret, least_used, settle, without_others
from .passwords import Passwords, check_new
from .throttle import Throttle, Try
from .tokens import Clock, caller_of, has_expired, kept_as, public_id, refusal_of

log = logging.getLogger("stoker.access")

SESSION = timedelta(days=7)
TOKEN = timedelta(days=DAYS)
KEEP_S = 1.0
"""What must be known of log-ins after a restart is written no more often than this."""
NOTES_AN_HOUR = 60
"""Refusals in the audit trail."""

CheckSystem = Callable[[Person, str], Awaitable[str]]
"""Asks a node whether this is the password of the person's unix account: "" = it is; else
`wrong_password`, or the code of what the system has against that account."""
Way = Literal["password", "system", "code"]


class Login:
    def __init__(
        self,
        book: Book,
        clock: Clock,
        check_system: CheckSystem,
        passwords: Passwords,
    ) -> None:
        self.book, self.clock = book, clock
        self.passwords = passwords
        self._check_system = check_system
        self._throttle = Throttle(book.tries)
        self._keeping: asyncio.Task[None] | None = None
        self._is_kept = True
        self._notes: list[float] = []

    async def by_password(
        self, name: str, password: str, origin: str, *, kind: Literal["token", "session"],
        label: str = "", replaces: str = "",
    ) -> Issued:  # fmt: skip
        """Log in. `replaces`: the session that the browser had before, if any."""
        person, kept = await self._checked(name, password, origin)
        way: Way = "system" if person.login == "system" else "password"
        issued = await self._issue(name, kind, label, way, origin, replaces=replaces)
        await self._refuse_if_changed(issued, kept, password)
        return issued

    async def by_code(
        self, code: str, origin: str, *, kind: Literal["token", "session"],
        label: str = "", replaces: str = "",
    ) -> Issued:  # fmt: skip
        """Log in with a one-time code, which is good for nothing from then on."""
        hashed = kept_as(code)
        found = self.book.credentials.get(hashed)
        if found is None or found.kind != "code" or has_expired(found, self.clock.now()):
            raise NotAllowed("wrong_code")
        name = found.person
        return await self._issue(name, kind, label, "code", origin, code=hashed, replaces=replaces)

    async def confirm(self, who: Caller, password: str) -> None:
        """The person is still there: admin acts are open for a while again."""
        await self._checked(who.name, password, who.origin, "password")

        def decide() -> Decision:
            credential = self._credential(who)
            if credential.password_at is None:  # a program's: nobody asks it again
                return [], []
            confirmed = structs.replace(credential, password_at=self.clock.now())
            return [Put("credential", who.credential, confirmed)], []

        await settle(self.book, decide)

    async def change_password(self, who: Caller, old: str | None, new: str) -> list[str]:
        """Another password. Everything else that this person is logged in with ends at once: public
        ids of that."""
        person = self._person(who.name)
        if person.login == "system":
            raise Conflict("password_of_system")
        check_new(new, person.name, field="new")
        if not await self._may_choose_anew(who, person):
            if old is None:
                raise InvalidSpec("missing_field", field="old", name="old")
            if old == new:
                raise InvalidSpec("password_same", field="new")
            await self._checked(who.name, old, who.origin, "old")
        kept, revoked = await self.passwords.hashed(new), list[str]()

        def decide() -> Decision:
            credential, now = self._credential(who), self.clock.now()
            ends = without_others(self.book, who.name, but=who.credential)
            revoked[:] = [public_id(change.name) for change in ends]
            changed = structs.replace(self._person(who.name), must_change=False)
            stays = structs.replace(
                credential,
                by_code=False,
                password_at=None if credential.password_at is None else now,
            )
            act = Act(
                at=now,
                who=who.name,
                act="password.change",
                on=f"person {who.name}",
                origin=who.origin,
                values={"revoked": len(revoked)},
            )
            changes = [
                Put("person", who.name, changed, kept),
                Put("credential", who.credential, stays),
                *ends,
            ]
            return changes, [act]

        await settle(self.book, decide)
        return revoked

    def close(self) -> None:
        if self._keeping is not None:
            self._keeping.cancel()

    # ---- is it the password

    async def _checked(
        self, name: str, password: str, origin: str, field: str = ""
    ) -> tuple[Person, str | None]:
        """The person whose password this is, and who may come in; what is kept of the password.
        Raises what else is the case."""
        if "\0" in password:
            raise InvalidSpec("nul", field=field or "password")
        person = self.book.people.get(name)
        attempt = self._throttle.begin(name, origin, self.clock.now(), is_known=person is not None)
        try:
            against, kept = await self._against(person, password)
        except BaseException:
            self._throttle.withdrawn(attempt)
            raise
        if person is None or against:
            await self._failed(attempt, person, origin)
            raise NotAllowed(against, field=field)
        if self._throttle.succeeded(attempt):
            self._keep_soon()
        refusal = refusal_of(person, self.clock.now())
        if refusal is not None:
            raise refusal
        return person, kept

    async def _against(self, person: Person | None, password: str) -> tuple[str, str | None]:
        """What speaks against it ("" = nothing), and what it was compared with."""
        if person is not None and person.login == "system":
            return await self._check_system(person, password), None
        kept = None if person is None else await self._kept(person.name)
        if not await self.passwords.is_right(kept, password):
            return "wrong_password", kept
        if person is not None and kept is not None and self.passwords.is_outdated(kept):
            await self._hash_again(person.name, kept, password)
        return "", kept

    async def _kept(self, name: str) -> str | None:
        return await self.book.store.secret("person", name)

    async def _hash_again(self, name: str, before: str, password: str) -> None:
        """More is asked of a hash than when this one was made."""
        kept = await self.passwords.hashed(password)
        if await self._kept(name) != before or name not in self.book.people:
            return
        with suppress(StoreError):  # the next log-in tries again
            await self.book.amend([Put("person", name, self.book.people[name], kept)])

    async def _refuse_if_changed(self, issued: Issued, before: str | None, password: str) -> None:
        """Another password was set while this one was tried: who did that revoked all but us."""
        if issued.person.login == "system":
            return
        kept = await self._kept(issued.person.name)
        if kept == before or await self.passwords.is_right(kept, password):
            return
        await self.book.amend([Remove("credential", kept_as(issued.secret))])
        raise NotAllowed("wrong_password")

    async def _may_choose_anew(self, who: Caller, person: Person) -> bool:
        """Who came by a code has no password to show."""
        credential = self._credential(who)
        if not credential.by_code:
            return False
        return person.must_change or await self._kept(person.name) is None

    # ---- what comes of it

    async def _issue(
        self, name: str, kind: Literal["token", "session"], label: str, way: Way, origin: str,
        *, code: str = "", replaces: str = "",
    ) -> Issued:  # fmt: skip
        secret, now = fresh_secret(self.book), self.clock.now()
        issued: list[Issued] = []

        def decide() -> Decision:
            person = self.book.people.get(name)
            if person is None or (code and code not in self.book.credentials):
                raise NotAllowed("wrong_code" if code else "wrong_password")
            refusal = refusal_of(person, now)
            if refusal is not None:
                raise refusal
            credential = Credential(
                kind=kind,
                person=name,
                scopes=tuple(s for s in SCOPES if s != "admin" or person.role == "admin"),
                label=label,
                created_at=now,
                expires_at=now + (SESSION if kind == "session" else TOKEN),
                used_at=now,
                password_at=now,
                by_code=bool(code),
            )
            issued[:] = [Issued(secret, credential, person)]
            gone = {change.name: change for change in least_used(self.book, name)}
            gone |= {one: Remove("credential", one) for one in (code, self._old(replaces)) if one}
            act = Act(
                at=now,
                who=name,
                act="login",
                on=f"{kind} {issued[0].id}",
                origin=origin,
                values={"by": way},
            )
            return [Put("credential", kept_as(secret), credential), *gone.values()], [act]

        await settle(self.book, decide)
        return issued[0]

    def _old(self, session: str) -> str:
        """The hash of a session that a browser gives up by logging in anew."""
        hashed = kept_as(session) if session else ""
        found = self.book.credentials.get(hashed)
        return hashed if found is not None and found.kind == "session" else ""

    def _person(self, name: str) -> Person:
        person = self.book.people.get(name)
        if person is None:
            raise NotAllowed("bad_token")
        return person

    def _credential(self, who: Caller) -> Credential:
        """What the caller showed, if it is still good."""
        credential = self.book.credentials.get(who.credential)
        if credential is None:
            raise NotAllowed("bad_token")
        caller_of(self.book, self.clock, who.credential, credential, who.origin)
        return credential

    # ---- failures

    async def _failed(self, attempt: Try, person: Person | None, origin: str) -> None:
        now = self.clock.now()
        is_worth_a_note = self._throttle.failed(attempt, now)
        self._keep_soon()
        if not is_worth_a_note or not self._may_note(now.timestamp()):
            return
        on = "" if person is None else f"person {person.name}"
        act = Act(
            at=now, who="", act="login.refused", on=on, origin=origin, outcome="wrong_password"
        )
        with suppress(StoreError):
            await self.book.note(act)

    def _may_note(self, now: float) -> bool:
        self._notes = [at for at in self._notes if now - at < 3600]
        if len(self._notes) >= NOTES_AN_HOUR:
            return False
        self._notes.append(now)
        return True

    def _keep_soon(self) -> None:
        self._is_kept = False
        if self._keeping is None or self._keeping.done():
            self._keeping = asyncio.get_running_loop().create_task(self._keep())

    async def _keep(self) -> None:
        """At once, then not again for a while."""
        while not self._is_kept:
            self._is_kept = True
            tries = self._throttle.kept(self.clock.now())
            if tries != self.book.tries:
                with suppress(StoreError):
                    await self.book.amend([Put("tries", ONLY, tries)])
                await asyncio.sleep(KEEP_S)
