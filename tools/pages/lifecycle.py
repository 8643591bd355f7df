"""The life of a task: states, events, outcomes, and the diagram, from the tables of the domain."""

from __future__ import annotations

import typing

from stoker import text
from stoker.domain.event import EVENTS
from stoker.domain.lifecycle import LIVE, TRANSITIONS, WAITING, WAITS_FOR, State
from stoker.domain.outcome import OUTCOME_OF, Outcome
from stoker.text import en_cli

from .markdown import names, table

WITHOUT_STATE = {
    "Submitted": "creates QUEUED, or HELD when the task asked for `hold`",
    "Unfolded": "creates an element of an array, in the state of the array",
    "Deleted": "the task and all its other events are gone",
}
"""What events do that are no transition."""


def page() -> str:
    states = [
        (f"`{s}`", text.state_word(s, None, "en"), text.state_word(s, None, "zh"),
         WAITS_FOR[s], ", ".join(f"`{e.__name__}`" for (at, e) in TRANSITIONS if at is s) or "–")
        for s in State
    ]  # fmt: skip
    events = [
        (f"`{event.__name__}`", en_cli.PHRASES[f"event.{event.__name__}"].format(node="a node"),
         ", ".join(f"`{n}`" for n in event.__struct_fields__ if n != "at") or "–",
         "; ".join(f"{at} → {to}" for (at, e), to in TRANSITIONS.items() if e is event)
         or WITHOUT_STATE[event.__name__])
        for event in EVENTS
    ]  # fmt: skip
    outcomes = [
        (f"`{outcome}`", text.state_word("FINISHED", outcome, "en"),
         text.state_word("FINISHED", outcome, "zh"),
         ", ".join(f"`{code}`" for code, its in OUTCOME_OF.items() if its == outcome))
        for outcome in typing.get_args(Outcome)
    ]  # fmt: skip
    return "\n".join(
        [
            "# The life of a task",
            "",
            "One table, `TRANSITIONS` in `domain/lifecycle.py`, says everything; this page is made "
            "from it. A task changes only by an event, an event is written in the same transaction "
            "as the row it changes, and replaying the events of a task gives its row.",
            "",
            "```mermaid",
            "stateDiagram-v2",
            "    [*] --> QUEUED : Submitted",
            "    [*] --> HELD : Submitted",
            *(
                f"    {at} --> {to} : {e.__name__}"
                for (at, e), to in TRANSITIONS.items()
                if at is not to  # what changes no state is in the table below
            ),
            "    FINISHED --> [*]",
            "```",
            "",
            "## States",
            "",
            *table(("state", "word", "中文", "waits for", "leaves by"), states),
            "",
            f"*Waiting* is {names(s for s in State if s in WAITING)}. *Live* is "
            f"{names(s for s in State if s in LIVE)}: an attempt holds its allocation.",
            "",
            "## Events",
            "",
            *table(("event", "means", "carries", "does"), events),
            "",
            "Every event also carries `at`. The API shows events with a sequence number `seq`.",
            "",
            "## Rules",
            "",
            "- Each event raises the task's version by one. A change names the version it was made "
            "for; when the task has moved on meanwhile, the change is dropped.",
            "- `Placed` is the intent to run: it is committed, with the allocation, before anything "
            "is sent to a node.",
            "- `Started`, `Requeued` and `Ended` name their attempt. News of an older attempt "
            "change nothing.",
            "- STOPPING is left by `Requeued` only when the stop was asked for to requeue it; a "
            "task that a person cancelled never comes back.",
            "- `Requeued` without an end: the attempt provably never ran, so running it again is "
            "always allowed. With a lost end: only if the task said `requeue_on_loss`. With a "
            "failed one: as often as its `retries` say. `not_before` is when it is tried again.",
            "- An array is never placed: it waits until all its elements have ended. An element "
            "begins with `Unfolded` when something happens to it alone; until then it is part of "
            "the array's row.",
            "- `Edited`, `Moved` and `Waived` change no state. An edit names the version it was made "
            "for.",
            "- Cards are free when `Ended` or `Requeued` is committed, never before.",
            "- FINISHED never changes.",
            "",
            "## Outcomes",
            "",
            "How a task ended follows from why it ended, in one table (`domain/outcome.py`). A "
            "missing process is never a success: without a recorded exit the outcome is `lost`.",
            "",
            *table(("outcome", "word", "中文", "reasons"), outcomes),
            "",
            "The sentences for the reasons: [errors.md](../reference/errors.md#why-a-task-ended).",
            "",
        ]
    )
