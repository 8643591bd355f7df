"""Both languages say the same things, and everything the source can raise is among them."""

from __future__ import annotations

import ast
import dataclasses
import string

import pytest

from stoker import text
from stoker.api.errors import STATUS_OF_CODE
from stoker.cli.run import COMMANDS
from stoker.config import Settings
from stoker.domain.checks import _MEANINGS
from stoker.domain.event import EVENTS
from stoker.domain.lifecycle import State
from stoker.domain.outcome import OUTCOME_OF
from stoker.domain.task import fields
from stoker.lab.settings import SETTINGS
from stoker.runner.reason import REASONS
from stoker.text import (
    en,
    en_admin,
    en_cli,
    en_examples,
    en_notices,
    en_people,
    en_queues,
    en_share,
    en_top,
    knows_phrase,
    zh,
    zh_admin,
    zh_cli,
    zh_examples,
    zh_notices,
    zh_people,
    zh_queues,
    zh_share,
    zh_top,
)

from .codes import SOURCE, codes_in_source, default_codes

CATALOGUES = [
    (en.TEXTS, zh.TEXTS),
    (en_cli.PHRASES, zh_cli.PHRASES),
    (en_top.PHRASES, zh_top.PHRASES),
    (en_people.PHRASES, zh_people.PHRASES),
    (en_notices.PHRASES, zh_notices.PHRASES),
    (en_admin.PHRASES, zh_admin.PHRASES),
    (en_queues.PHRASES, zh_queues.PHRASES),
    (en_share.PHRASES, zh_share.PHRASES),
    (en_examples.PHRASES, zh_examples.PHRASES),
]
SPOKEN = (
    en_cli.PHRASES
    | en_top.PHRASES
    | en_people.PHRASES
    | en_notices.PHRASES
    | en_admin.PHRASES
    | en_queues.PHRASES
    | en_share.PHRASES
    | en_examples.PHRASES
)
"""Everything the command line says."""
DECLARED = ("field.", "setting.", "rule.")
"""In English these are the declarations themselves."""


def placeholders(template: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(template) if name is not None}


@pytest.mark.parametrize(("english", "chinese"), CATALOGUES)
def test_both_languages_have_the_same_keys(
    english: dict[str, str], chinese: dict[str, str]
) -> None:
    assert set(english) == {key for key in chinese if not key.startswith(DECLARED)}


@pytest.mark.parametrize(("english", "chinese"), CATALOGUES)
def test_both_languages_use_the_same_values(
    english: dict[str, str], chinese: dict[str, str]
) -> None:
    for key, template in english.items():
        assert placeholders(template) == placeholders(chinese[key]), key


@pytest.mark.parametrize(("english", "chinese"), CATALOGUES)
def test_chinese_is_chinese(english: dict[str, str], chinese: dict[str, str]) -> None:
    # what is the same in both languages: names of options, GPU, an empty frame
    same = {key for key in english if english[key] == chinese[key]}
    assert same <= {
        "os_error", "ls.gpus", "nodes.gpu", "nodes.limit_cpus", "nodes.limit_memory",
        "show.finished", "settings.from_file",
    }  # fmt: skip


def test_every_reason_to_wait_has_a_few_words_for_a_column() -> None:
    never = (
        "no_such_",
        "too_m",
        "too_long",
        "not_in_queue",
        "estimate_",
        "try_",
        "when.",
        "drained.",
    )
    waits = {code for code in AGREED if not code.startswith(never)}
    assert len(waits) >= 20
    assert [code for code in waits if not knows_phrase(f"top.why.{code}", "en")] == []
    for code in waits:  # and says nothing that the reason does not carry
        known = placeholders(en.TEXTS[code]) | placeholders(en.TEXTS.get(f"{code}.since", ""))
        assert placeholders(en_top.PHRASES[f"top.why.{code}"]) <= known, code


def test_no_sentence_has_a_stray_placeholder() -> None:
    for catalogue in (one for pair in CATALOGUES for one in pair):
        for key, template in catalogue.items():
            if not key.startswith(DECLARED):
                assert all(name.isidentifier() for name in placeholders(template)), key


AGREED = {
    "no_nodes", "node_down", "node_drained", "gpus_busy", "gpus_foreign", "gpu_ids_busy",
    "cpus_busy", "memory_busy", "held", "next_moment", "after_pending", "after_failed",
    "after_deleted", "not_before", "backing_off", "array_cap", "quota_cards", "queue_cards",
    "queue_cards_each", "quota_team", "gpus_kept", "gpu_memory_busy", "gpu_utilisation", "reuse_blocked",
    "behind_owner", "too_few_nodes", "paused", "no_such_gpu", "too_many_gpus", "too_many_cpus",
    "too_much_memory", "no_such_model", "too_much_gpu_memory", "no_such_node", "not_in_queue",
    "too_many_nodes", "too_long.queue", "estimate_now", "estimate_reserved", "estimate_limits",
    "estimate_unknown", "estimate_person", "estimate_at", "estimate_paused", "try_fewer_gpus", "try_model",
    "try_any_model", "try_shared", "try_time_limit", "try_queue", "try_any_node", "try_anyway",
    "try_release", "when.ok", "when.any", "when.notok", "drained.launches_failed",
}  # fmt: skip
"""What the scheduler may say, whether or not its source shows it as a constant."""


def test_everything_the_scheduler_says_has_words() -> None:
    assert AGREED - set(en.TEXTS) == set()


def test_the_same_on_many_nodes_has_words() -> None:
    """Whatever is said of one node may be said of a thousand."""
    never = ("no_such_", "too_", "not_in_queue")
    waits = {code for code in AGREED if not code.startswith(never)}
    per_node = {code for code in waits if "node" in placeholders(en.TEXTS[code])}
    assert len(per_node) >= 10
    assert {f"{code}.many" for code in per_node} - set(en.TEXTS) == set()


def test_every_code_in_the_source_has_words() -> None:
    used = {use.code for use in codes_in_source()}
    assert used, "nothing was found: the search is broken"
    known = used | default_codes() | set(STATUS_OF_CODE) | {code for _, code in _MEANINGS}
    assert known - set(en.TEXTS) == set()


def test_every_sentence_gets_its_values() -> None:
    missing = [
        (use.where, use.code, sorted(wants))
        for use in codes_in_source()
        if use.values is not None
        and (wants := placeholders(en.TEXTS.get(use.code, "")) - use.values)
    ]
    assert missing == []


def test_every_hint_gets_its_values() -> None:
    missing = [
        (use.where, use.code)
        for use in codes_in_source()
        if use.values is not None
        and placeholders(en.TEXTS.get(f"{use.code}.hint", "")) - use.values
    ]
    assert missing == []


def test_validation_messages_get_their_values() -> None:
    for pattern, code in _MEANINGS:
        given = set(pattern.groupindex) | ({"choices"} if code == "not_a_choice" else set())
        assert placeholders(en.TEXTS[code]) <= given, code


@pytest.mark.parametrize("language", text.LANGUAGES)
def test_every_end_of_a_task_has_a_sentence(language: str) -> None:
    for code in {*OUTCOME_OF, *REASONS}:
        for values in ({}, {"detail": "X"}, {"exit_code": 3}, {"by": "ana"}, {"limit": 60}):
            said = text.reason(code, values, language)
            assert said != text.reason("no such code", {}, language)
            if code != "exit_code" or "exit_code" in values:
                assert "?" not in said, (code, values)


@pytest.mark.parametrize("language", text.LANGUAGES)
def test_every_state_and_outcome_has_a_word(language: str) -> None:
    words = [text.state_word(state, None, language) for state in State]
    words += [text.state_word("FINISHED", o, language) for o in set(OUTCOME_OF.values())]
    assert len(set(words)) == len(words)
    assert not any(word.isupper() for word in words)


def test_every_field_and_setting_has_chinese() -> None:
    assert {f"field.{f.name}" for f in fields()} == {k for k in zh.TEXTS if k.startswith("field.")}
    names = {f"setting.{f.name}" for f in dataclasses.fields(Settings)}
    assert names == {k for k in zh.TEXTS if k.startswith("setting.")}
    rules = {f"rule.{name}" for name in SETTINGS}
    assert rules == {k for k in zh.TEXTS if k.startswith("rule.")}


def test_every_command_and_event_has_words() -> None:
    for name in COMMANDS:
        assert {f"help.{name}", f"help.{name}.usage", f"help.{name}.more"} <= set(en_cli.PHRASES)
    for event in EVENTS:
        assert f"event.{event.__name__}" in en_cli.PHRASES


def test_every_phrase_the_commands_use_exists_and_is_used() -> None:
    exact, beginnings = _phrases_in_cli()
    assert exact - set(SPOKEN) == set()
    unused = {
        key
        for key in SPOKEN
        if key not in exact and not key.startswith((*beginnings, "opt.", "event."))
    }
    assert unused == set()


def _phrases_in_cli() -> tuple[set[str], set[str]]:
    """Every constant in cli/, client/ and notices that looks like a key, and the fixed beginnings of
    computed ones."""
    exact: set[str] = set()
    beginnings: set[str] = set()
    heads = {key.partition(".")[0] for key in SPOKEN}
    others = (
        SOURCE / "flow" / "notice_text.py",
        SOURCE / "api" / "news.py",
        SOURCE / "api" / "share.py",
    )
    speaking = (*(SOURCE / "cli").rglob("*.py"), *(SOURCE / "client").glob("*.py"))
    for path in (*speaking, *others):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr) and isinstance(node.values[0], ast.Constant):
                beginnings.add(str(node.values[0].value))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                head, dot, rest = node.value.partition(".")
                if node.value in SPOKEN or (
                    dot and head in heads and rest.replace("_", "").isalpha()
                ):
                    exact.add(node.value)
    exact -= beginnings
    names = {f"{head}." for head in heads}
    return exact, {begin for begin in beginnings if begin.startswith(tuple(names))}
