"""The client's verbs for queues, teams, quotas and labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote

from .connection import Connection

if TYPE_CHECKING:
    from stoker import wire, wire_queues
    from stoker.domain.queue import QueueTerms, TeamTerms


class QueueVerbs(Connection):
    """Part of Client. Imports what it needs when it is called: most programs never ask."""

    # ---- queues, teams, quotas

    def queues(self) -> list[wire_queues.QueueView]:
        """The queues that you may use; all of them for an admin."""
        from stoker.wire_queues import QueueView  # noqa: PLC0415

        return self._get("/queues", list[QueueView])

    def queue(self, name: str) -> wire_queues.QueueView:
        """One of them."""
        from stoker.wire_queues import QueueView  # noqa: PLC0415

        return self._get(_at("queues", name), QueueView)

    def put_queue(self, name: str, terms: QueueTerms, version: int) -> wire_queues.QueueView:
        """The queue allows exactly this; with version 0 it is made. Refused (`stale_entry`) when it
        is no longer at `version`. For admins, as all that follows."""
        from stoker.wire_queues import QueueView  # noqa: PLC0415

        return self._put(_at("queues", name), terms, QueueView, version)

    def remove_queue(self, name: str, *, move_to: str = "") -> wire_queues.QueueRemoved:
        """Remove a queue. Refused (`queue_has_waiting`) while tasks wait in it, unless they go to
        another one, `move_to`."""
        from stoker.wire_queues import QueueRemoved  # noqa: PLC0415

        query = {"move_to": move_to or None}
        return self._delete(_at("queues", name), QueueRemoved, query)

    def teams(self) -> list[wire_queues.TeamView]:
        """Your own team; all of them for an admin."""
        from stoker.wire_queues import TeamView  # noqa: PLC0415

        return self._get("/teams", list[TeamView])

    def put_team(self, name: str, terms: TeamTerms, version: int) -> wire_queues.TeamView:
        """The team is like this; with version 0 it is made."""
        from stoker.wire_queues import TeamView  # noqa: PLC0415

        return self._put(_at("teams", name), terms, TeamView, version)

    def change_members(
        self, name: str, *, add: Sequence[str] = (), remove: Sequence[str] = ()
    ) -> wire_queues.TeamView:
        """These people join the team, leaving the one they were in; those leave it."""
        from stoker.wire_queues import TeamView  # noqa: PLC0415

        wish = {"add": list(add), "remove": list(remove)}
        return self._post(f"{_at('teams', name)}/members", wish, TeamView)

    def remove_team(self, name: str) -> wire_queues.TeamRemoved:
        """Remove a team. Its members are in no team then. Refused (`team_in_queues`) while a queue is for it."""
        from stoker.wire_queues import TeamRemoved  # noqa: PLC0415

        return self._delete(_at("teams", name), TeamRemoved, {})

    def quotas(self) -> wire_queues.Quotas:
        """What you and your team may hold; everybody's for an admin."""
        from stoker.wire_queues import Quotas  # noqa: PLC0415

        return self._get("/quotas", Quotas)

    def set_quota(self, person: str, most_cards: int | None) -> wire_queues.QuotaView:
        """So many GPUs may this person hold at the same time; None = any number."""
        from stoker.wire_queues import QuotaView  # noqa: PLC0415

        wish = {"most_cards": most_cards}
        return self._put(f"{_at('people', person)}/quota", wish, QuotaView)

    def label(self, node: str, labels: Sequence[str]) -> wire.NodeView:
        """The node has exactly these labels."""
        from stoker.wire import NodeView  # noqa: PLC0415

        wish = {"labels": list(labels)}
        return self._put(f"{_at('nodes', node)}/labels", wish, NodeView)


def _at(kind: str, name: str) -> str:
    return f"/{kind}/{quote(name, safe='')}"
