"""Sentences, languages and amounts."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from stoker import text
from stoker.text.amounts import duration, memory


@pytest.mark.parametrize(
    ("header", "language"),
    [
        (None, "en"),
        ("", "en"),
        ("zh", "zh"),
        ("zh-CN,zh;q=0.9,en;q=0.8", "zh"),
        ("en-US,en;q=0.9,zh;q=0.8", "en"),
        ("zh;q=0.2, en;q=0.7", "en"),
        ("fr, zh;q=0.1", "zh"),
        ("fr, de", "en"),
        ("ZH-Hans-CN", "zh"),
        ("zh;q=0", "en"),
        ("zh;q=abc", "en"),
        (";;;,,q=1", "en"),
        ("*", "en"),
    ],
)
def test_language_of_a_request(header: str | None, language: str) -> None:
    assert text.pick_language(header) == language


@pytest.mark.parametrize(
    ("environ", "language"),
    [
        ({}, "en"),
        ({"LANG": "zh_CN.UTF-8"}, "zh"),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": "C.UTF-8"}, "en"),
        ({"LANG": "en_US.UTF-8", "LC_MESSAGES": "zh_TW.UTF-8"}, "zh"),
        ({"LC_ALL": "", "LANG": "zh"}, "zh"),
    ],
)
def test_language_of_a_terminal(environ: dict[str, str], language: str) -> None:
    assert text.locale_language(environ) == language


def test_a_sentence_is_filled_with_values_as_they_are() -> None:
    odd = "{id} {0} %s {values.__class__}"
    assert odd in text.message("unknown_task", {"id": odd}, "en")


def test_an_unknown_code_still_says_something() -> None:
    assert "no_such_code" in text.message("no_such_code", {}, "en")
    assert "no_such_code" in text.reason("no_such_code", {}, "zh")
    assert text.hint("no_such_code", {}, "en") is None


def test_a_missing_value_does_not_break_a_sentence() -> None:
    assert "?" in text.message("too_large", {}, "en")


def test_values_in_units_and_codes_in_words() -> None:
    said = text.message("memory_busy", {"need": 8192, "free": 512, "node": "a"}, "en")
    assert said == "Needs 8 GiB of memory; 512 MiB are free on a."
    assert "2 h" in text.message("try_time_limit", {"limit_s": 7200}, "en")
    pending = {"task": "12", "when": "notok"}
    assert text.message("after_pending", pending, "en") == "Task 12 has to fail first."
    assert "运行错误后" in text.message("after_pending", pending, "zh")
    drained = {"node": "a", "why": "launches_failed"}
    assert "three launches" in text.message("node_drained", drained, "en")
    assert text.message("node_drained", drained | {"why": "ok"}, "en").endswith(": ok.")
    assert "?" in text.message("memory_busy", {}, "en")


def test_an_instant_in_a_sentence_is_iso_in_utc() -> None:
    at = datetime(2030, 1, 31, 22, 0, tzinfo=timezone(timedelta(hours=8)))
    assert "at 2030-01-31T14:00:00Z" in text.message("not_before", {"at": at}, "en")


def test_a_sentence_may_depend_on_what_is_known() -> None:
    kept = {"gpus": "0", "node": "a", "task": "9", "since": None}
    assert text.message("gpus_kept", kept, "en").endswith("for task 9.")
    assert text.message("gpus_kept", kept | {"since": "noon"}, "en").endswith("since noon.")
    assert "characters" in text.message("too_long", {"most": 200}, "en")
    assert "1 h" in text.message("too_long", {"most": 3600, "queue": "short"}, "en")


def test_one_sentence_for_many_nodes() -> None:
    values = {"count": 8, "need": 4, "free": 1, "node": "b", "have": 8}
    assert text.many("gpus_busy", values, "en") == (
        "8 nodes have fewer than 4 GPUs free; the most are 1, on b."
    )
    assert text.many("held", values, "en") is None
    assert text.knows("held", "zh")
    assert not text.knows("eclipse", "en")


def test_an_unknown_language_is_english() -> None:
    assert text.message("empty_command", {}, "fr") == text.message("empty_command", {}, "en")


@pytest.mark.parametrize(
    ("code", "values", "said"),
    [
        ("use_shell", {"detail": "cd x && python a.py"}, "`cd x && python a.py` is not a program"),
        ("use_shell", {"detail": "cd x && python a.py"}, "use -c for shell words"),
        ("gpu_memory", {"detail": ""}, "CUDA out of memory"),
        ("killed_by_signal", {"signal": 9, "detail": "SIGKILL"}, "the machine ran out of memory"),
        ("killed_by_signal", {"exit_code": 137, "detail": "SIGKILL"}, "ran out of memory"),
        ("killed_by_signal", {"signal": 31}, "SIGSYS"),
        ("killed_by_signal", {"signal": 99}, "signal 99"),
        ("exit_code", {"exit_code": 3}, "exit code 3"),
        ("exit_code", {"exit_code": 127}, "did not find a program"),
        ("module_missing", {"detail": "torch"}, "`torch` is missing"),
        ("time_limit", {"limit": 5400}, "1 h 30 min"),
        ("cancelled", {"by": "ana"}, "by ana"),
        ("windows_line_ends", {"detail": ""}, "Windows line ends"),
        ("all_succeeded", {}, "All of its elements"),
        ("elements_failed", {"detail": "3 of 10"}, "3/10 of its elements did not succeed"),
    ],
)
def test_why_a_task_ended(code: str, values: dict[str, object], said: str) -> None:
    assert said in text.reason(code, values, "en")


@pytest.mark.parametrize(
    ("seconds", "english", "chinese"),
    [
        (0, "0 s", "0 秒"),
        (-5, "0 s", "0 秒"),
        (0.4, "0.4 s", "0.4 秒"),
        (59, "59 s", "59 秒"),
        (60, "1 min", "1 分钟"),
        (199, "3 min", "3 分钟"),
        (3600, "1 h", "1 小时"),
        (9000, "2 h 30 min", "2 小时 30 分钟"),
        (100_000, "1 d 3 h", "1 天 3 小时"),
    ],
)
def test_durations(seconds: float, english: str, chinese: str) -> None:
    assert duration(seconds, "en") == english
    assert duration(seconds, "zh") == chinese


@pytest.mark.parametrize(
    ("mib", "said"),
    [(0, "0 MiB"), (512, "512 MiB"), (8192, "8 GiB"), (1536, "1.5 GiB"), (2**21, "2 TiB")],
)
def test_sizes(mib: int, said: str) -> None:
    assert memory(mib) == said
