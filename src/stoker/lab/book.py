"""The lab's decisions in memory: a mirror of the records' entries, changed only after a commit.

Every change names the version it was made from and is recorded together with the act that says who
did it. Readers take plain values out of the mirror and keep none; who depends on them (the
scheduler's policy, open streams) is told after each change.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, get_type_hints

import msgspec
from msgspec import structs

from stoker.domain.notice import Channel, MailServer
from stoker.domain.person import Credential, Person, Tries
from stoker.domain.queue import Queue, Team
from stoker.domain.rules import Announcement, NodeNote, Pause, Rules
from stoker.scheduler.needs import DEFAULT_QUEUE
from stoker.store.base import Act, Amendment, LabStore

log = logging.getLogger("stoker.lab")

KINDS: dict[str, type[Any]] = {
    "person": Person,
    "team": Team,
    "queue": Queue,
    "node": NodeNote,
    "credential": Credential,
    "tries": Tries,
    "announcement": Announcement,
    "pause": Pause,
    "channel": Channel,
    "mail": MailServer,
}
RULE = "rule"
"""One entry for each setting that was changed: its value."""
ONLY = "lab"
"""The name of what there is one of: the announcement, the pause."""

RULES: dict[str, Any] = get_type_hints(Rules, include_extras=True)
"""Every setting with its type and bounds."""

Listener = Callable[[frozenset[str]], None]


class Put(NamedTuple):
    """This value under this name; in the place of the one that is there, if there is one."""

    kind: str
    name: str
    value: Any
    secret: str | None = None


class Remove(NamedTuple):
    kind: str
    name: str


class Book:
    def __init__(
        self,
        store: LabStore,
        defaults: Rules | None = None,
        built_in: Rules | None = None,
        *,
        queues: Mapping[str, Queue] | None = None,
    ) -> None:
        self.store = store
        self.configured = dict(queues or {})
        """Queues that there are whatever anybody decides here; what is decided counts more."""
        self.built_in = built_in or Rules()
        """Settings as Stoker comes with them."""
        self.defaults = defaults or self.built_in
        """Settings as they are where nobody has changed them: as config.toml says, or built in."""
        self.rules = self.defaults
        self._values: dict[str, dict[str, Any]] = {kind: {} for kind in (*KINDS, RULE)}
        self._versions: dict[tuple[str, str], int] = {}
        self._listeners: list[Listener] = []
        self._queues = self._all_queues()
        self.deciding = asyncio.Lock()
        """Held by whoever looks at other entries before changing one: the last admin, a name that
        is taken."""

    async def load(self) -> None:
        """Once, before anybody reads."""
        for entry in await self.store.entries():
            if entry.kind == RULE:
                self._load_rule(entry.name, entry.body)
            elif entry.kind in self._values:
                self._values[entry.kind][entry.name] = _decoded(entry.kind, entry.body)
            self._versions[entry.kind, entry.name] = entry.version
        self.rules = self._effective()
        self._queues = self._all_queues()

    @property
    def people(self) -> Mapping[str, Person]:
        return self._values["person"]

    @property
    def teams(self) -> Mapping[str, Team]:
        return self._values["team"]

    @property
    def queues(self) -> Mapping[str, Queue]:
        """All there are, the default one among them."""
        return self._queues

    @property
    def nodes(self) -> Mapping[str, NodeNote]:
        return self._values["node"]

    @property
    def credentials(self) -> Mapping[str, Credential]:
        """By the hash of their text."""
        return self._values["credential"]

    @property
    def tries(self) -> Tries | None:
        return self._values["tries"].get(ONLY)

    @property
    def changed_rules(self) -> Mapping[str, Any]:
        return self._values[RULE]

    @property
    def channels(self) -> Mapping[str, Channel]:
        """By `person/channel`."""
        return self._values["channel"]

    @property
    def mail(self) -> MailServer | None:
        return self._values["mail"].get(ONLY)

    @property
    def announcement(self) -> Announcement | None:
        return self._values["announcement"].get(ONLY)

    @property
    def pause(self) -> Pause | None:
        return self._values["pause"].get(ONLY)

    def version(self, kind: str, name: str) -> int:
        """How often this entry was written; 0 = there is none."""
        return self._versions.get((kind, name), 0)

    def listen(self, listener: Listener) -> None:
        """Call this after each change, with the kinds of what has changed."""
        self._listeners.append(listener)

    async def amend(self, changes: Sequence[Put | Remove], acts: Sequence[Act] = ()) -> None:
        """All of these, recorded; or none. StaleWrite when somebody else was faster."""
        amendments = [self._amendment(change) for change in changes]
        await self.store.amend(amendments, acts)
        for change, amendment in zip(changes, amendments, strict=True):
            if isinstance(change, Put):
                self._values[change.kind][change.name] = change.value
                self._versions[change.kind, change.name] = amendment.before + 1
            else:
                self._values[change.kind].pop(change.name, None)
                self._versions.pop((change.kind, change.name), None)
        if any(change.kind == RULE for change in changes):
            self.rules = self._effective()
        self._queues = self._all_queues()
        kinds = frozenset(change.kind for change in changes)
        for listener in self._listeners:
            listener(kinds)

    async def note(self, act: Act) -> None:
        """Record an act that changes nothing here."""
        await self.store.amend((), (act,))

    def _load_rule(self, name: str, body: str) -> None:
        """A value that this version does not know, or no longer allows, is as if never set."""
        try:
            self._values[RULE][name] = msgspec.json.decode(body, type=RULES[name])
        except (KeyError, msgspec.ValidationError):
            log.warning("event=setting_ignored setting=%s", name)

    def _amendment(self, change: Put | Remove) -> Amendment:
        before = self._versions.get((change.kind, change.name), 0)
        if isinstance(change, Remove):
            return Amendment(kind=change.kind, name=change.name, before=before, body=None)
        return Amendment(
            kind=change.kind,
            name=change.name,
            before=before,
            body=msgspec.json.encode(change.value).decode(),
            secret=change.secret,
        )

    def _all_queues(self) -> dict[str, Queue]:
        usual = {DEFAULT_QUEUE: Queue(name=DEFAULT_QUEUE)}
        return usual | self.configured | self._values["queue"]

    def _effective(self) -> Rules:
        return structs.replace(self.defaults, **self._values[RULE])


def _decoded(kind: str, body: str) -> Any:
    return msgspec.json.decode(body, type=KINDS.get(kind, Any))
