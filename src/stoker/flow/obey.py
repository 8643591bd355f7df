"""What the lab has decided takes effect at once: the policy, what is kept, pauses."""

from __future__ import annotations

from stoker.lab.book import Book
from stoker.lab.policy import POLICY_KINDS, policy_of

from .context import Flow, Retention


def obey(flow: Flow) -> None:
    """From now on, whenever the book changes."""
    was_paused = flow.book.pause is not None

    def follow(kinds: frozenset[str]) -> None:
        nonlocal was_paused
        if kinds & POLICY_KINDS:
            flow.set_policy(policy_of(flow.book))
        if "rule" in kinds:
            flow.set_retention(retention_of(flow.book))
        if "pause" in kinds:
            _note_pause(flow, was_paused)
            was_paused = flow.book.pause is not None
            flow.replan()
        if "announcement" in kinds:
            _note_announcement(flow)

    flow.book.listen(follow)


def retention_of(book: Book) -> Retention:
    return Retention(book.rules.keep_days, book.rules.keep_tasks)


def _note_pause(flow: Flow, was_paused: bool) -> None:
    found = flow.book.pause
    if found is None:
        flow.diary.write(flow.clock.now(), "unpaused")
    elif not was_paused:
        flow.diary.write(found.at, "paused", person=found.by, why=found.why or None)


def _note_announcement(flow: Flow) -> None:
    said = flow.book.announcement
    if said is not None:
        flow.diary.write(said.at, "announced", person=said.by, text=said.text)
