"""What Tab offers, without a server: commands, options, choices; and never a word of complaint."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.cli.complete import complete
from stoker.cli.run import COMMANDS, run, stoker

WORDS = st.sampled_from(
    [*COMMANDS, "", "-", "--", "--json", "--node", "-g", "--mode=", "-gx", "x=", "#3", "3", "\x1b["]
) | st.text(max_size=8)


def offered(*typed: str) -> list[str]:
    return [one.value or one.kind for one in complete(stoker, typed)]


@pytest.mark.parametrize(
    ("typed", "values"),
    [
        (["re"], ["resubmit", "requeue", "release", "resume", "reset", "restore"]),
        (["ls", "--el"], ["--elements"]),
        (["ls", "-s", "fini"], ["finished"]),
        (["ls", "--state=fini"], ["--state=finished"]),
        (["ls", "-as", "fini"], ["finished"]),
        (["submit", "--no-u"], ["--no-urgent"]),
        (["submit", "-g", ""], []),
        (["submit", "-g", "1", "--", "--"], ["file"]),
        (["submit", "python", "--lr"], ["file"]),
        (["submit", "--workdir", ""], ["folder"]),
        (["config", "sh"], ["show"]),
        (["config", "show", "--j"], ["--json"]),
        (["help", "com"], ["completion"]),
        (["user", "l"], ["ls", "lock"]),
        (["user", "rm", "bo", "--tasks", ""], ["refuse", "cancel"]),
        (["user", "edit", "bo", "--role", "a"], ["admin"]),
        (["user", "add", ""], []),
        (["user", "add", "--file", ""], ["file"]),
        (["token", "new", "x", "--scope", "tasks:"], ["tasks:read", "tasks:write"]),
        (["me", "set", "l"], ["language"]),
        (["log"], ["login", "logout", "logs"]),
        (["queue", "e"], ["edit"]),
        (["queue", "add", "--most-c"], ["--most-cards", "--most-cards-each"]),
        (["team", "edit", "--re"], ["--remove"]),
        (["quota", "set", "--t"], ["--team"]),
        (["nodes", "la"], ["label"]),
        (["cancel", ""], []),
        (["nonsense", ""], None),
    ],
)
def test_what_is_offered(typed: list[str], values: list[str] | None) -> None:
    if values is None:
        with pytest.raises(LookupError):
            offered(*typed)
    else:
        assert sorted(offered(*typed)) == sorted(values)


def test_options_say_what_they_do_in_the_language_of_the_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert [one.about for one in complete(stoker, ["ls", "--al"])] == [
        "Finished tasks too, the newest first"
    ]
    monkeypatch.setenv("LANG", "zh_CN.UTF-8")
    assert [one.about for one in complete(stoker, ["submit", "--gpus"])] == ["每个节点的 GPU 数量"]


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(["bash", "zsh", "fish", ""]), st.lists(WORDS, max_size=5))
def test_nothing_that_is_typed_makes_it_fail(shell: str, typed: list[str]) -> None:
    words = ["stoker " + " ".join(typed)] if shell == "bash" else typed
    assert run(["__complete", shell, *words]) == 0


def test_bash_is_answered_only_what_it_replaces(capsys: pytest.CaptureFixture[str]) -> None:
    for line, answer in (
        ("stoker submit --mode=sh", "word\tshared\t\n"),
        ("stoker submit --after 3:no", "word\tnotok\t\n"),
        ("stoker submit --mode 's", "word\tshared\t\n"),
        ("stoker -", ""),
    ):
        assert run(["__complete", "bash", line]) == 0
        assert capsys.readouterr() == (answer, "")


def test_completing_a_command_needs_no_client() -> None:
    code = (
        "import sys; from stoker.cli.run import run; run(['__complete', 'zsh', '']); "
        "print([m for m in ('stoker.client', 'http.client', 'msgspec', 'json') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
