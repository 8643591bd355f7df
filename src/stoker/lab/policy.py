"""The scheduler's policy, made of what the lab has decided. Pure but for reading the book."""

from __future__ import annotations

from msgspec import structs

from stoker.domain.queue import Queue
from stoker.scheduler.policy import Policy

from .book import Book

POLICY_KINDS = frozenset({"person", "team", "queue", "node", "rule"})
"""A change of one of these may change the policy."""


def policy_of(book: Book) -> Policy:
    rules = book.rules
    queues = {name: _placed(book, queue) for name, queue in book.queues.items()}
    people = book.people.values()
    return Policy(
        order=rules.policy,
        weights={p.name: p.weight for p in people if p.weight != 1},
        quotas={p.name: p.most_cards for p in people if p.most_cards is not None},
        teams={p.name: p.team for p in people if p.team},
        team_quotas={t.name: t.most_cards for t in book.teams.values() if t.most_cards is not None},
        admins=frozenset(p.name for p in people if p.role == "admin"),
        queues=queues,
        keep_s=rules.keep_idle_s,
        patient_s=rules.patient_s,
        reuse_any=rules.reuse_any,
        slots=rules.gpu_slots,
        urgent_each=rules.urgent_each,
        most_waiting_each=rules.most_waiting_each,
        half_life_s=rules.half_life_s,
    )


def _placed(book: Book, queue: Queue) -> Queue:
    """With the nodes that its labels stand for. Who is alone may use every queue."""
    if not book.people and (queue.people or queue.teams):
        queue = structs.replace(queue, people=(), teams=())
    if not queue.labels:
        return queue
    labelled = {n.name for n in book.nodes.values() if set(n.labels) & set(queue.labels)}
    nodes = labelled if queue.nodes is None else labelled & queue.nodes
    return structs.replace(queue, nodes=frozenset(nodes))
