"""Settings that change live: what is refused, what is kept, and where a value comes from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec import structs

from stoker.domain.errors import InvalidSpec, UnknownSetting
from stoker.domain.rules import Rules, one_line
from stoker.lab import settings
from stoker.lab.book import Book
from stoker.store.base import Act, Amendment, Entry
from tests.helpers.builders import NOON

STAMP: dict[str, Any] = {"at": NOON, "who": "ana", "origin": "10.0.0.7"}


class Kept:
    """Records that keep entries and acts in memory."""

    def __init__(self, *entries: Entry) -> None:
        self._entries, self.acts = list(entries), list[Act]()

    async def entries(self) -> list[Entry]:
        return self._entries

    async def amend(self, amendments: Sequence[Amendment], acts: Sequence[Act]) -> None:
        self.acts += acts


def a_book(*entries: Entry, **file: Any) -> tuple[Book, Kept]:
    kept = Kept(*entries)
    return Book(kept, structs.replace(Rules(), **file)), kept  # type: ignore[arg-type]


async def test_a_change_its_act_and_the_way_back() -> None:
    book, kept = a_book(policy="fifo")
    assert settings.source_of(book, "policy") == "file"
    assert settings.source_of(book, "keep_days") == "default"

    await settings.change(book, "policy", "fairshare", **STAMP)
    assert (book.rules.policy, settings.source_of(book, "policy")) == ("fairshare", "changed")
    await settings.change(book, "policy", "fairshare", **STAMP)  # nothing new
    await settings.unset(book, "policy", **STAMP)
    await settings.unset(book, "policy", **STAMP)

    assert (book.rules.policy, settings.source_of(book, "policy")) == ("fifo", "file")
    assert [(act.act, act.on, act.values) for act in kept.acts] == [
        ("settings.set", "policy", {"old": "fifo", "new": "fairshare"}),
        ("settings.unset", "policy", {"old": "fairshare", "new": "fifo"}),
    ]
    assert kept.acts[0].origin == "10.0.0.7"


@pytest.mark.parametrize(
    ("name", "value", "code", "values"),
    [
        ("policy", "fif", "not_a_choice", {"choices": "balance, fifo, fairshare"}),
        ("policy", 3, "not_a_choice", {"value": "3"}),
        ("keep_days", -1, "too_small", {"least": "0"}),
        ("keep_days", 10**9, "too_large", {"most": "36500"}),
        ("keep_days", "3", "wrong_type", {"expected": "int"}),
        ("keep_days", True, "wrong_type", {"got": "bool"}),
        ("reuse_any", 1, "wrong_type", {"expected": "bool"}),
        ("keep_idle_s", 10**18, "too_large", {}),
    ],
)
async def test_a_refusal_names_the_setting_and_what_is_allowed(
    name: str, value: Any, code: str, values: dict[str, str]
) -> None:
    book, kept = a_book()
    with pytest.raises(InvalidSpec) as refused:
        await settings.change(book, name, value, **STAMP)
    assert (refused.value.code, refused.value.field) == (code, name)
    assert values.items() <= refused.value.values.items()
    assert kept.acts == []


async def test_what_is_no_setting() -> None:
    book, _ = a_book()
    with pytest.raises(UnknownSetting) as refused:
        await settings.change(book, "listen", "0.0.0.0:80", **STAMP)
    assert "policy" in str(refused.value.values["known"])
    with pytest.raises(UnknownSetting):
        await settings.unset(book, "rules", **STAMP)


async def test_what_a_later_version_kept_or_this_one_no_longer_allows_is_ignored() -> None:
    bodies = {"policy": '"fifo"', "keep_days": "-5", "new_in_2040": "[1]", "gpu_slots": '"two"'}
    book, _ = a_book(*(Entry("rule", name, 3, body) for name, body in bodies.items()))
    await book.load()
    assert book.rules == Rules(policy="fifo")
    assert book.changed_rules == {"policy": "fifo"}
    await settings.change(book, "keep_days", 5, **STAMP)
    assert book.rules.keep_days == 5


def test_every_setting_is_declared_with_bounds_and_meaning() -> None:
    assert list(settings.SETTINGS) == list(Rules.__struct_fields__)
    for setting in settings.SETTINGS.values():
        assert setting.about
        if setting.kind == "whole":
            assert setting.least is not None
            assert setting.most is not None, setting.name


@pytest.mark.parametrize("text", ["a\nb", "a\tb", "\x1b]0;x\x07", "\u2066x", "a\x00"])
def test_what_everybody_is_shown_is_one_plain_line(text: str) -> None:
    with pytest.raises(InvalidSpec, match="not_one_line"):
        one_line(text, field="text")
    assert one_line("  周五 22:00 维护 ", field="text") == "周五 22:00 维护"
