"""What people READ: codes and values become one plain sentence, in English or Chinese.

Errors, wait reasons, ends and states are rendered here once, for CLI, API and web alike. Every
function is total: an unknown code, a missing value or an unknown language still gives a sentence.
Values are put in as they are (never read as templates); whoever prints to a terminal makes them
harmless. Only the catalogue of the language asked for is imported.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from importlib import import_module
from typing import Any

from typing_extensions import override

from .amounts import duration, memory

LANGUAGES = ("en", "zh")


def message(code: str, values: Mapping[str, object], language: str) -> str:
    """An error or a wait reason as one plain sentence. Instants are in UTC."""
    texts = _catalogue(language)
    if code in texts:
        # a code may have another sentence for when one of its values is known
        known = (f"{code}.{name}" for name, value in values.items() if value is not None)
        special = (texts[key] for key in known if key in texts)
        return _fill(next(special, texts[code]), values, language)
    return _fill(texts["unknown_code"], {"code": code}, language)


def many(code: str, values: Mapping[str, object], language: str) -> str | None:
    """One sentence for the same reason on several nodes. `values`: those of the best of them,
    `count`, and `nodes`, some of their names."""
    template = _catalogue(language).get(f"{code}.many")
    return None if template is None else _fill(template, values, language)


def knows(code: str, language: str) -> bool:
    """Whether this version has words for it: a newer server may have sent them already."""
    return code in _catalogue(language)


def hint(code: str, values: Mapping[str, object], language: str) -> str | None:
    """What to do about it, when there is something to say."""
    template = _catalogue(language).get(f"{code}.hint")
    return None if template is None else _fill(template, values, language)


def reason(code: str, values: Mapping[str, object], language: str) -> str:
    """Why a task ended. `values`: any of detail, exit_code, signal, by, limit (seconds)."""
    texts = _catalogue(language)
    known = _dressed(values, language)
    if code == "elements_failed" and "detail" in known:
        known["detail"] = str(known["detail"]).replace(" of ", "/")
    for variant in _variants(known):
        template = texts.get(f"reason.{code}.{variant}" if variant else f"reason.{code}")
        if template is not None:
            return _fill(template, known, language)
    return _fill(texts["reason.unknown"], {"code": code}, language)


def state_word(state: str, outcome: str | None, language: str) -> str:
    """One word for where a task is; for a finished one, how it ended."""
    texts = _catalogue(language)
    if state == "FINISHED" and outcome is not None:
        return texts.get(f"outcome.{outcome}", outcome)
    return texts.get(f"state.{state}", state)


def phrase(key: str, language: str, **values: object) -> str:
    """A sentence of the command line. Its key is ours: an unknown one is a bug and raises."""
    return _fill(_phrases(key, language)[key], values, language)


def knows_phrase(key: str, language: str) -> bool:
    """Whether the command line has words for it."""
    return key in _phrases(key, language)


def about_field(name: str, description: str, language: str) -> str:
    """What a field of a task or a setting means; English is the declaration itself."""
    return description if language == "en" else _catalogue(language).get(name, description)


def pick_language(accept_language: str | None) -> str:
    """The language of an HTTP Accept-Language header; English unless Chinese is preferred."""
    best, weight = "en", 0.0
    for entry in (accept_language or "").lower().split(","):
        tag, _, parameters = entry.strip().partition(";")
        base = tag.strip().partition("-")[0]
        if base in LANGUAGES and (q := _quality(parameters)) > weight:
            best, weight = base, q
    return best


def locale_language(environ: Mapping[str, str]) -> str:
    """The language of a terminal, by the first of LC_ALL, LC_MESSAGES and LANG that is set."""
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        if environ.get(name):
            return "zh" if environ[name].lower().startswith("zh") else "en"
    return "en"


_WORDED = {"when": "when.", "outcome": "outcome.", "why": "drained."}
"""Values that may be codes themselves, and where their words are."""


class _Value:
    """A value in a sentence. `{need:size}` is in MiB, `{limit:time}` in seconds."""

    def __init__(self, name: str, value: object, language: str) -> None:
        self._name, self._value, self._language = name, value, language

    @override
    def __format__(self, spec: str) -> str:
        value = self._value
        if isinstance(value, int | float) and spec:
            return memory(value) if spec == "size" else duration(value, self._language)
        if isinstance(value, tuple | list | set | frozenset):
            return ", ".join(map(str, value))
        if isinstance(value, datetime):
            return value.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        if self._name in _WORDED and isinstance(value, str):
            return _catalogue(self._language).get(_WORDED[self._name] + value, value)
        return str(value)


class _Values(dict[str, _Value]):
    """What a sentence is filled with: a value that nobody gave shows as a question mark."""

    def __missing__(self, key: str) -> _Value:
        return _Value(key, "?", "en")


def _fill(template: str, values: Mapping[str, object], language: str) -> str:
    shown = {name: _Value(name, value, language) for name, value in values.items()}
    return template.format_map(_Values(shown))


def _variants(known: Mapping[str, object]) -> list[str]:
    """From the most special wording to the plain one."""
    special = [str(known[name]) for name in ("detail", "exit_code") if name in known]
    return [*special, *(name for name in ("detail", "by", "limit") if name in known), ""]


def _dressed(values: Mapping[str, object], language: str) -> dict[str, object]:
    known: dict[str, Any] = {k: v for k, v in values.items() if v not in (None, "")}
    if isinstance(known.get("signal"), int):
        known.setdefault("detail", _signal_name(known["signal"]))
    if isinstance(known.get("limit"), int | float):
        known["limit"] = duration(known["limit"], language)
    return known


def _signal_name(number: int) -> str:
    """As Linux counts them, where tasks run; whoever asks may sit at another system."""
    named = 1 <= number <= len(_SIGNALS)
    return f"SIG{_SIGNALS[number - 1]}" if named else f"signal {number}"


_SIGNALS = (
    "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE",
    "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ",
    "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
)  # fmt: skip


def _quality(parameters: str) -> float:
    name, _, value = parameters.strip().partition("=")
    if name.strip() != "q":
        return 1.0
    try:
        return float(value)
    except ValueError:
        return 0.0


def _catalogue(language: str) -> Mapping[str, str]:
    if language == "zh":
        from .zh import TEXTS  # noqa: PLC0415 - one language is enough
    else:
        from .en import TEXTS  # noqa: PLC0415
    return TEXTS


def _phrases(key: str, language: str) -> Mapping[str, str]:
    """Where the key's sentence is. What few commands need has a catalogue of its own."""
    name = next((name for name, begins in _APART.items() if key.startswith(begins)), "cli")
    if key.endswith(".examples"):
        name = "examples"
    found: Mapping[str, str] = import_module(f".{language}_{name}", __name__).PHRASES
    return found


_APART: dict[str, tuple[str, ...]] = {
    "top": ("top.",),
    "share": ("share.",),
    "notices": ("notice.", "notify."),
    "people": ("people.", "help.user_", "help.token_", "help.me_"),
    "admin": ("heard.", "pause.", "announce.", "settings.", "audit.", "serverlog.", "news."),
    "queues": (
        "queue.", "team.", "quota.", "help.queue-", "help.team-", "help.quota-", "help.nodes-",
        "opt.queue-", "opt.team-", "opt.quota-", "opt.nodes-",
    ),
}  # fmt: skip
"""Catalogues beside the command line's own, by how their keys begin. One language is loaded."""
