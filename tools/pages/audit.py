"""The acts that the audit trail keeps, from the source that puts them there."""

from __future__ import annotations

from .declared import acts
from .markdown import table


def page() -> str:
    rows = [(f"`{act.word}`", act.about) for act in acts()]
    return "\n".join(
        [
            "# The audit trail",
            "",
            "Who did what, when and from where; only ever appended, in one transaction with what was "
            "done, or before it. Each act has a hash made of the one before it, its number and all it "
            "says, so that what was changed, put in or taken out later is found: `stoker audit verify`. "
            "No secrets are in it. How to use it: [admin.md](../howto/admin.md).",
            "",
            *table(("act", "is kept by what does this"), rows),
            "",
            "What an admin does to a task of somebody else is kept with the task and its owner, before it is "
            "done; what people do to their own tasks is in the tasks' events.",
            "",
        ]
    )
