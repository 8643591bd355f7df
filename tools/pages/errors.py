"""Every code that a person may meet, with its sentence in both languages."""

from __future__ import annotations

from stoker.domain.outcome import OUTCOME_OF
from stoker.text import en, zh

from .declared import estimate_codes, statuses, suggestion_codes, wait_codes
from .markdown import table

NOT_ERRORS = ("reason.", "state.", "outcome.", "when.", "drained.")


def page() -> str:
    status, waiting = statuses(), wait_codes()
    estimates, suggestions = estimate_codes(), suggestion_codes()
    codes = [c for c in en.TEXTS if not c.startswith(NOT_ERRORS) and "." not in c]
    errors = [
        (f"`{code}`", str(status.get(code, "–")), *_both(code))
        for code in codes
        if code not in waiting | estimates | suggestions
    ]
    waits = [(f"`{code}`", *_both(code)) for code in codes if code in waiting]
    said = [(f"`{code}`", *_both(code)) for code in codes if code in estimates | suggestions]
    reasons = [
        (f"`{code}`", f"`{outcome}`", *_both(f"reason.{code}"))
        for code, outcome in OUTCOME_OF.items()
    ]
    return "\n".join(
        [
            "# Errors and reasons",
            "",
            "Everything that goes wrong in a way we know is a code with values; the sentences are "
            "made from it once, for the command line and the API alike. Codes are stable, sentences "
            "are not. `{...}` stands for a value. What to do about it follows after →.",
            "",
            "## Why a request is refused",
            "",
            "The field is named beside the sentence. HTTP is the status of the API's answer; – means "
            "that it is told elsewhere, for example at the start of the server.",
            "",
            *table(("code", "HTTP", "English", "中文"), errors),
            "",
            "## Why a task waits",
            "",
            "Shown by `stoker why` and `stoker show`, and in the API as `reasons` and `waits`, with the "
            "values beside the sentence. Times are in UTC there, in the terminal's zone on the "
            "command line.",
            "",
            *table(("code", "English", "中文"), waits),
            "",
            "## When it may start, and what would start it now",
            "",
            "The basis of an estimate, and suggestions; each of those was tried by the planner.",
            "",
            *table(("code", "English", "中文"), said),
            "",
            "## Why a task ended",
            "",
            "The reason of a finished task. With a detail (a path, a module, a signal) the sentence "
            "names it.",
            "",
            *table(("reason", "outcome", "English", "中文"), reasons),
            "",
        ]
    )


def _both(code: str) -> tuple[str, str]:
    said = []
    for texts in (en.TEXTS, zh.TEXTS):
        hint = texts.get(f"{code}.hint")
        said.append(texts[code] + (f" → {hint}" if hint else ""))
    return said[0], said[1]
