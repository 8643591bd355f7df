"""The options that say what a queue allows, and a queue as tables show it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import click
from msgspec import structs
from typing_extensions import override

from stoker.domain.queue import QueueTerms
from stoker.text.amounts import duration
from stoker.wire_queues import QueueView

from .command import option
from .options import Quantity, Whole
from .say import language, refuse, words
from .screen import clean

NONE = "none"
"""Typed to take a limit back."""
LISTS = ("nodes", "labels", "models", "people", "teams")
LIMITS = ("most_cards", "most_cards_each", "most_waiting", "default_limit_s", "longest_s")


class OrNone(click.ParamType[Any]):
    """Another kind of value, or `none`."""

    def __init__(self, kind: click.ParamType[Any]) -> None:
        self._kind, self.name = kind, f"{kind.name}|{NONE}"

    @override
    def convert(self, value: Any, param: click.Parameter | None, ctx: Any) -> Any:
        is_none = isinstance(value, str) and value.lower() == NONE
        return NONE if is_none else self._kind.convert(value, param, ctx)


class NameList(click.ParamType[Any]):
    """`a,b`: several names in one value; `none` for no names."""

    name = f"A[,B...]|{NONE}"

    @override
    def convert(self, value: Any, param: click.Parameter | None, ctx: Any) -> tuple[str, ...]:
        if not isinstance(value, str):
            return tuple(value)
        names = [name.strip() for name in value.split(",")]
        return () if value.lower() == NONE else tuple(dict.fromkeys(name for name in names if name))


def term_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """An option for everything that a queue may say. Not given = None."""
    time, count, names = OrNone(Quantity("s")), OrNone(Whole()), NameList()
    for flag, name, kind in (
        ("--about", "about", click.STRING),
        ("--priority", "priority", Whole()),
        ("--default-limit", "default_limit_s", time),
        ("--longest", "longest_s", time),
        ("--most-cards", "most_cards", count),
        ("--most-cards-each", "most_cards_each", count),
        ("--most-waiting", "most_waiting", count),
        ("--people", "people", names),
        ("--teams", "teams", names),
        ("--nodes", "nodes", names),
        ("--labels", "labels", names),
        ("--models", "models", names),
        ("--engine", "engine", click.STRING),
    )[::-1]:
        shown = "TEXT" if kind is click.STRING else None
        function = option(
            flag, name, type=kind, metavar=shown, default=None, help=f"opt.queue-{flag[2:]}",
        )(function)  # fmt: skip
    return option("--spread/--pack", "spread", default=None, help="opt.queue-spread")(function)


def typed_terms(given: Mapping[str, Any]) -> dict[str, Any]:
    """What was typed, by field."""
    terms = {name: value for name, value in given.items() if value is not None}
    if "spread" in terms:
        terms["rank"] = "spread" if terms.pop("spread") else "pack"
    for name in LIMITS:
        if terms.get(name) == NONE:
            terms[name] = None
    if "nodes" in terms:
        terms["nodes"] = frozenset(terms["nodes"]) or None
    for value in terms.values():
        for text in [value] if isinstance(value, str) else value if _is_list(value) else ():
            _check_utf8(text)
    return terms


def changed(terms: QueueTerms, typed: Mapping[str, Any]) -> QueueTerms:
    return structs.replace(terms, **typed)


def _is_list(value: object) -> bool:
    return isinstance(value, tuple | frozenset)


def _check_utf8(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        refuse("usage.not_utf8")


# ---- how it is shown


def limit_text(terms: QueueTerms) -> str:
    """Time limits in a few words."""
    usual, longest = terms.default_limit_s, terms.longest_s
    if longest is not None:
        said = duration(longest, language())
        if usual is None or usual == longest:
            return words("queue.up_to", longest=said)
        return words("queue.usually", usual=duration(usual, language()), longest=said)
    if usual is not None:
        return words("queue.usually_only", usual=duration(usual, language()))
    return words("queue.any_limit")


def cards_text(queue: QueueView) -> str:
    """Cards that are held, and how many may be."""
    most = queue.terms.most_cards
    return str(queue.cards) if most is None else words("queue.of", held=queue.cards, most=most)


def term_texts(queue: QueueView) -> Iterator[str]:
    """What else is special about it, for the last column."""
    terms = queue.terms
    if terms.about:
        yield clean(terms.about)
    if terms.most_cards_each is not None:
        yield words("queue.term_each", most=terms.most_cards_each)
    if terms.most_waiting is not None:
        yield words("queue.term_waiting", most=terms.most_waiting)
    for name in LISTS:
        names = getattr(terms, name)
        if names:
            yield words(f"queue.term_{name}", names=joined(names))
    if terms.rank == "spread":
        yield words("queue.term_spread")


def facts(queue: QueueView) -> Iterator[tuple[str, str]]:
    """All about it: what, and how it is."""
    terms = queue.terms
    unlimited = words("queue.no_limit")
    if terms.about:
        yield words("queue.show_about"), clean(terms.about)
    yield words("queue.show_priority"), str(terms.priority)
    yield words("queue.show_limit"), limit_text(terms)
    yield words("queue.show_who"), _who(queue)
    for name in ("nodes", "labels", "models"):
        names = getattr(terms, name)
        if names or name == "nodes":
            yield words(f"queue.show_{name}"), joined(names or ()) or words("queue.all")
    for name in ("most_cards", "most_cards_each", "most_waiting"):
        most = getattr(terms, name)
        yield words(f"queue.show_{name}"), unlimited if most is None else str(most)
    yield words("queue.show_rank"), words(f"queue.{terms.rank}")
    yield words("queue.show_now"), words(
        "queue.now", waiting=queue.waiting, yours=queue.yours, running=queue.running,
        held=queue.cards,
    )  # fmt: skip


def notes(queue: QueueView) -> Iterator[str]:
    if queue.configured:
        yield words("queue.configured")
    if queue.missing_nodes:
        yield words("queue.missing_nodes", names=joined(queue.missing_nodes))
    if queue.missing_labels:
        yield words("queue.missing_labels", names=joined(queue.missing_labels))


def joined(names: tuple[str, ...] | frozenset[str]) -> str:
    return ", ".join(clean(name) for name in sorted(names))


def _who(queue: QueueView) -> str:
    terms = queue.terms
    if not queue.restricted:
        return words("queue.everybody")
    said = [words("queue.who_people", names=joined(terms.people))] if terms.people else []
    if terms.teams:
        said.append(words("queue.who_teams", names=joined(terms.teams)))
    return "; ".join(said) or words("queue.you_too")
