"""Sentences, languages and amounts."""

from __future__ import annotations

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
