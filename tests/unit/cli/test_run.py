"""Exit codes and the one line a person reads. No server is there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import pytest

from stoker.cli.run import COMMANDS, run, stoker
from stoker.text import en_cli, zh_cli


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["lss"], "`lss`. Did you mean `ls`?"),
        (["zzzzz"], "There is no command `zzzzz`"),
        (["ls", "--jso"], "`--jso`. Did you mean `--json`?"),
        (["submit", "--gpu", "1", "--", "x"], "Did you mean `--gpus`?"),
        (["submit", "--memroy", "1", "--", "x"], "Did you mean `--memory`?"),
        (["submit"], "command: nothing to run"),
        (["submit", "-c", "x", "--", "y"], "command: give either"),
        (["submit", "-g"], "needs a value"),
        (["submit", "-g", "x", "--", "y"], "gpus: `x` is not a whole number"),
        (["submit", "-t", "2y", "--", "x"], "time_limit_s: `2y` is not an amount"),
        (["submit", "-e", "A", "--", "x"], "env: `A` is not KEY=VALUE"),
        (["submit", "-n", "\udcff", "--", "x"], "name: contains bytes"),
        (["show"], "id: missing"),
        (["show", "x"], "id: `x` is not a task's number"),
        (["show", "1", "2"], "Too much was typed: 2"),
        (["show", "0"], "id:"),
        (["cancel"], "ids: missing"),
        (["cancel", "1", "a\nb"], "ids: `a\\nb`"),
        (["wait", "1", "--timeout", "x"], "timeout: `x` is not an amount"),
        (["logs", "1", "--tail", "-1"], "tail: must be at least 0"),
        (["ls", "-n", "0"], "most: must be at least 1"),
        (["why"], "id: missing"),
        (["edit", "1"], "Nothing to change was typed"),
        (["edit", "1", "2", "--gpus", "1"], "Too much was typed: 2"),
        (["edit", "1", "-c", "x", "--", "y"], "command: give either"),
        (["edit", "1", "-n", "\udcff"], "name: contains bytes"),
        (["move", "1"], "Say where to"),
        (["move", "1", "--first", "--last"], "Say where to"),
        (["move", "1", "--before", "x"], "before: `x` is not a task's number"),
        (["delete", "1"], "add --yes"),
        (["delete", "1", "--json"], "add --yes"),
        (["ls", "x"], "id: `x` is not a task's number"),
        (["drain"], "node: missing"),
        (["config", "shwo"], "Did you mean `show`?"),
        (["up", "--listen", "x"], "listen: `x` is not HOST:PORT"),
        (["up", "--simulate-gpus", "5000"], "simulate_gpus: `5000` cannot be used"),
    ],
)
def test_bad_usage_is_one_line_and_code_2(
    args: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(args) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert err.startswith("stoker: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    "args",
    [
        ["ls"], ["ls", "--json"], ["show", "1"], ["logs", "1"], ["wait", "1"], ["cancel", "1"],
        ["hold", "1"], ["release", "1"], ["nodes"], ["submit", "--", "x"], ["why", "1"],
        ["submit", "--dry-run", "--", "x"], ["edit", "1", "-g", "1"], ["move", "1", "--last"],
        ["resubmit", "1"], ["requeue", "1"], ["delete", "--yes", "1"], ["drain", "a"],
        ["resume", "a"], ["release", "--anyway", "1"], ["ls", "1"],
    ],
)  # fmt: skip
def test_no_server_is_code_3_and_says_what_to_do(
    args: list[str], home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(args) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert "stoker up" in err
    assert str(home) in err
    assert err.count("\n") == 1


def test_a_server_that_does_not_answer_is_code_3(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STOKER_URL", "http://127.0.0.1:1")
    assert run(["ls"]) == 3
    assert "http://127.0.0.1:1" in capsys.readouterr().err


@pytest.mark.parametrize("url", ["zz", "ftp://x", "http://", "http://[::1", "http://x:99999"])
def test_a_bad_address_is_bad_usage(
    url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STOKER_URL", url)
    assert run(["ls"]) == 2
    assert capsys.readouterr().err.startswith("stoker: STOKER_URL: ")


def test_a_bad_token_is_bad_usage(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STOKER_TOKEN", "训练")
    assert run(["ls"]) == 2
    assert "stoker: STOKER_TOKEN: " in capsys.readouterr().err


def test_a_bug_of_ours_is_no_failed_task(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stoker.client.Client.nodes", lambda _: 1 / 0)
    assert run(["nodes"]) == 70
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_version_works_without_a_server(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["version"]) == 0
    assert run(["--version"]) == 0
    assert run(["version", "--json"]) == 0
    assert '"server": null' in capsys.readouterr().out


def test_settings_are_shown_with_their_source(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STOKER_SIMULATE_GPUS", "3")
    assert run(["config", "show"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert next(line for line in lines if line.startswith("simulate_gpus")).split()[1:3] == [
        "3", "environment",
    ]  # fmt: skip
    assert run(["config", "show", "--json"]) == 0
    assert '"simulate_gpus": {"value": 3, "from": "environment"}' in capsys.readouterr().out


def test_down_and_reset_with_nothing_there(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["down"]) == 0
    assert run(["down", "--stop-tasks"]) == 0
    assert run(["reset", "--yes"]) == 0
    assert str(home) in capsys.readouterr().out


def test_reset_moves_the_state_aside(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for text in ("a", "b"):
        home.mkdir()
        (home / "note").write_text(text)
        assert run(["reset", "--yes"]) == 0
    assert not home.exists()
    kept = sorted(home.parent.glob("home.old-*/note"))
    assert sorted(path.read_text() for path in kept) == ["a", "b"]
    assert str(kept[0].parent) in capsys.readouterr().out


@pytest.mark.parametrize("lang", ["C.UTF-8", "zh_CN.UTF-8"])
@pytest.mark.parametrize("name", COMMANDS)
def test_help_in_both_languages(
    name: str, lang: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANG", lang)
    texts = zh_cli.PHRASES if lang.startswith("zh") else en_cli.PHRASES
    assert run([name, "--help"]) == 0
    out = capsys.readouterr().out
    assert texts[f"help.{name}.usage"] in out
    assert texts["opt.help"] in out
    assert "opt." not in out
    assert "field." not in out


def test_the_list_of_commands(capsys: pytest.CaptureFixture[str]) -> None:
    for args in ([], ["-h"], ["--help"]):
        assert run(args) == 0
        out = capsys.readouterr().out
        assert all(f"\n  {name} " in out for name in COMMANDS)


def test_every_command_answers_json(capsys: pytest.CaptureFixture[str]) -> None:
    for name in COMMANDS:
        found = stoker.get_command(click.Context(stoker), name)
        for below in found.commands if isinstance(found, click.Group) else [""]:
            assert run([name, *below.split(), "--help"]) == 0
            assert "--json" in capsys.readouterr().out, (name, below)


@pytest.mark.parametrize("command", ["ls", "show", "submit"])
def test_quick_commands_import_nothing_heavy(command: str) -> None:
    code = (
        f"import sys, stoker.cli.{command}, stoker.cli.run; "
        "print([m for m in ('litestar','sqlalchemy','asyncio','rich','uvicorn','alembic',"
        "'httpx','requests','difflib','json','subprocess') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_client_can_be_imported_anywhere() -> None:
    """On a laptop that is not Linux there is no fcntl and no pwd."""
    code = (
        "import sys; sys.modules['fcntl'] = sys.modules['pwd'] = None; "
        "import stoker.client, stoker.cli.run, stoker.cli.ls, stoker.cli.submit"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
