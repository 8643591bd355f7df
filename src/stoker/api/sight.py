"""What one caller sees of others' tasks, wherever one leaves the server.

The lab's rule `others_see` decides: `queue` (names and resources), `all` (also what is run, never
environments and output), `nothing` (others' tasks are not there; a card is busy, nobody says for
whom). Owners and admins see everything, and nothing is taken apart for them. Asked anew for each
answer: the rule may be changed while a stream is open.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec import structs

from stoker.access.caller import Caller
from stoker.domain.errors import InvalidSpec
from stoker.domain.key import TaskKey, parse_key
from stoker.domain.task import TaskSpec
from stoker.flow import overview
from stoker.flow.context import Flow
from stoker.flow.depend import after_of
from stoker.scheduler.explain import Explanation
from stoker.scheduler.fit import Reason
from stoker.store.codec import quoted
from stoker.store.readers import EventRow, ListedRow
from stoker.wire import AttemptView, CardView, EventView, HolderView, NodeView, WhyView

from .reduced import Level, attempt_for, event_for, row_for
from .views import event_views, why_view

UNNAMED = {"gpus_kept": "gpus_kept_unnamed", "behind_owner": "behind_unnamed"}
"""Reasons that name somebody, and their like that does not."""


class Sight:
    __slots__ = ("_flow", "is_whole", "level", "who")

    def __init__(self, flow: Flow, who: Caller) -> None:
        self._flow, self.who = flow, who
        self.is_whole = who.is_admin
        """Nothing is hidden from this caller."""
        self.level: Literal["all", "queue", "nothing"] = flow.book.rules.others_see

    @property
    def is_alone(self) -> bool:
        """Others' tasks are not there for this caller."""
        return not self.is_whole and self.level == "nothing"

    def may_know(self, owner: str) -> bool:
        """Whether a task of this owner is there for the caller."""
        return not self.is_alone or owner == self.who.name

    # ---- tasks

    def rows(self, rows: Sequence[ListedRow]) -> Sequence[ListedRow]:
        """Rows of a list. Those of others are reduced, or left out."""
        if self.is_whole:
            return rows
        mine = f'"owner":{quoted(self.who.name)},'
        return [
            row if _owned(row, mine) else row_for(row, self._level)
            for row in rows
            if self.level != "nothing" or _owned(row, mine)
        ]

    def row(self, row: ListedRow, owner: str) -> ListedRow:
        """One that the caller may know of."""
        return row if self.who.may_read(owner) else row_for(row, self._level)

    def attempts(self, found: Sequence[AttemptView], owner: str) -> tuple[AttemptView, ...]:
        return tuple(found if self.who.may_read(owner) else map(attempt_for, found))

    def events(self, rows: Iterable[EventRow], owner: str | None = None) -> tuple[EventView, ...]:
        """Events, all of tasks of `owner`, or each of the owner it says."""
        if self.is_whole or owner == self.who.name:
            return event_views(list(rows))
        return tuple(
            event_views([row])[0] if self.who.may_read(whose) else event_for(row)
            for row in rows
            if self.may_know(whose := row.owner if owner is None else owner)
        )

    # ---- why

    def why(self, told: Explanation, owner: str, language: str) -> WhyView:
        """Why a task of `owner` waits, without naming whom the caller may not know of. What would
        start it now is for those who could do it."""
        if not self.who.may_read(owner):
            told = structs.replace(told, suggestions=())
        view = why_view(structs.replace(told, reasons=self.reasons(told.reasons)), language)
        return structs.replace(view, holders=tuple(map(self._holder, view.holders)))

    def reasons(self, reasons: Sequence[Reason]) -> tuple[Reason, ...]:
        """The same of reasons alone."""
        return tuple(map(self._reason, reasons)) if self.is_alone else tuple(reasons)

    def _reason(self, reason: Reason) -> Reason:
        code = UNNAMED.get(reason.code)
        if code is None or self.may_know(self._named_in(reason)):
            return reason
        values = {name: v for name, v in reason.values.items() if name not in ("task", "owner")}
        return Reason(code, values)

    def _named_in(self, reason: Reason) -> str:
        if "owner" in reason.values:
            return str(reason.values["owner"])
        return self._waiting_owner(str(reason.values.get("task", "")))

    def _waiting_owner(self, id: str) -> str:
        key = parse_key(id)
        entry = None if key is None else self._flow.view.waiting(key)
        return "" if entry is None else entry.sign.owner

    def _holder(self, one: HolderView) -> HolderView:
        return one if self.may_know(one.owner) else structs.replace(one, task="", owner="")

    # ---- nodes

    def nodes(self, found: Iterable[NodeView]) -> list[NodeView]:
        if self.is_whole:
            return list(found)
        return [self._node(node) for node in found]

    def _node(self, node: NodeView) -> NodeView:
        account = self.who.person.account_on(node.name)
        holders = {
            str(holding.key): holding.owner
            for holding in self._flow.view.rooms[node.name].holdings.values()
        }
        cards = tuple(self._card(card, account, holders) for card in node.cards)
        return structs.replace(node, cards=cards)

    def _card(self, card: CardView, account: str, holders: dict[str, str]) -> CardView:
        foreign = tuple(_process(entry, account) for entry in card.foreign)
        card = structs.replace(card, foreign=foreign)
        if not self.is_alone:
            return card
        tasks = tuple(id for id in card.tasks if self.may_know(holders.get(id, "")))
        kept_for = card.kept_for
        if kept_for and not self.may_know(self._waiting_owner(kept_for)):
            kept_for = ""
        return structs.replace(
            card, tasks=tasks, task=tasks[0] if tasks else None, kept_for=kept_for
        )

    # ---- what a request names

    async def check_after(self, specs: Sequence[TaskSpec], *, batch: bool = False) -> None:
        """Refuse what waits for a task that is not there for the caller, as for one that is not."""
        if not self.is_alone:
            return
        for number, spec in enumerate(specs):
            prefix = f"tasks[{number}]." if batch else ""
            for place, one in enumerate(after_of(spec)):
                if not await self.knows(one.key):
                    field = f"{prefix}after[{place}]"
                    raise InvalidSpec("dependency_unknown", field=field, task=str(one.key))

    async def knows(self, key: TaskKey) -> bool:
        """Whether this task is there for the caller."""
        if not self.is_alone:
            return True
        task = await overview.task(self._flow, key)
        return task is not None and self.may_know(task.owner)

    @property
    def _level(self) -> Level:
        return "all" if self.level == "all" else "queue"


def _owned(row: ListedRow, mine: str) -> bool:
    """Whether a row is of this owner, by its text: `{"id":"17","owner":"ana",...`."""
    return row[0].startswith(mine, row[0].index(",") + 1)


def _process(entry: str, account: str) -> str:
    """`account:pid:command`; the command of another's process is another's business."""
    whose, _, rest = entry.partition(":")
    return entry if whose == account else f"{whose}:{rest.partition(':')[0]}"
