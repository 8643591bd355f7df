"""Help as a person reads it: every command is found, and every example works as it stands."""

from __future__ import annotations

import shlex

import click
import pytest

from stoker.cli import screen
from stoker.cli.headings import HEADINGS, grouped
from stoker.cli.run import COMMANDS, run, stoker
from stoker.cli.screen import width
from stoker.text import en_examples, zh_examples

CATALOGUES = {"en": en_examples.PHRASES, "zh": zh_examples.PHRASES}
OPERATORS = set("|&;<>()")
FEWEST, MOST = 2, 7


def examples(language: str, name: str) -> list[str]:
    return CATALOGUES[language][f"help.{name}.examples"].split("\n")


@pytest.mark.parametrize("language", CATALOGUES)
@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_examples_that_parse(name: str, language: str) -> None:
    found = examples(language, name)
    assert FEWEST <= len(found) <= MOST
    assert any(our_words(line)[0] == name for line in found)
    for line in found:
        parse(our_words(line))
        assert width(line) <= 78, "too long for a terminal"


BELOW = sorted({key.split(".")[1] for key in en_examples.PHRASES} - set(COMMANDS))


@pytest.mark.parametrize("language", CATALOGUES)
@pytest.mark.parametrize("name", BELOW)
def test_so_have_commands_below_commands(name: str, language: str) -> None:
    found = examples(language, name)
    assert FEWEST <= len(found) <= MOST
    for line in found:
        words = our_words(line)
        assert f"{words[0]}_{words[1]}" == name.replace("-", "_")
        parse(words)
        assert width(line) <= 78, "too long for a terminal"


@pytest.mark.parametrize(
    "wrong", ["stoker nonsense", "stoker ls --nonsense", "stoker cancel", "stoker ls 1 2", "ls"]
)
def test_a_wrong_example_is_noticed(wrong: str) -> None:
    with pytest.raises((Exception, AssertionError)):
        parse(our_words(wrong))


def test_both_languages_show_the_same_examples() -> None:
    for name in COMMANDS:
        ours = {
            language: [line.partition("  # ")[0] for line in examples(language, name)]
            for language in CATALOGUES
        }
        if name not in ("wait", "drain", "pause", "announce"):  # those print words of a language
            assert ours["en"] == ours["zh"], name


def our_words(line: str) -> list[str]:
    """What `stoker` is given by this line; redirections and other programs are the shell's."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words = list(lexer)
    assert "stoker" in words, line
    ours = words[words.index("stoker") + 1 :]
    end = next((n for n, word in enumerate(ours) if set(word) <= OPERATORS), len(ours))
    return ours[:end]


def parse(words: list[str]) -> None:
    """As click would, without doing it."""
    command: click.Command = stoker
    ctx = outer = click.Context(stoker, info_name="stoker")
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        name, found, words = command.resolve_command(ctx, words)
        assert found is not None
        command, outer, ctx = found, ctx, click.Context(found, parent=ctx, info_name=name)
    left = command.make_context(ctx.info_name, list(words), parent=outer).args
    assert left == []


# ---- finding one's way


def test_every_command_is_under_a_heading() -> None:
    placed = [name for names in HEADINGS.values() for name in names]
    assert len(placed) == len(set(placed))
    assert set(COMMANDS) <= set(placed)
    assert sorted(name for names in grouped(COMMANDS).values() for name in names) == sorted(
        COMMANDS
    )


def test_a_command_without_a_heading_is_listed_all_the_same() -> None:
    assert grouped(("ls", "new"))["more"] == ["new"]


def test_headings_in_both_languages(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(["--help"]) == 0
    english = capsys.readouterr().out
    assert english.index("\nTasks\n") < english.index("\n  submit ") < english.index("\nThe line\n")
    monkeypatch.setenv("LANG", "zh_CN.UTF-8")
    assert run(["--help"]) == 0
    assert "\n任务\n  submit " in capsys.readouterr().out


@pytest.mark.parametrize("name", COMMANDS)
def test_help_is_another_way_to_say_it(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([name, "--help"]) == 0
    asked = capsys.readouterr().out
    assert "Examples:\n  stoker " in asked
    assert run(["help", name]) == 0
    assert capsys.readouterr().out == asked


def test_help_of_what_is_below_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["help"]) == 0
    assert "stoker COMMAND" in capsys.readouterr().out
    assert run(["help", "config", "show"]) == 0
    assert "stoker config show" in capsys.readouterr().out
    assert run(["help", "lss"]) == 2
    assert "Did you mean `ls`?" in capsys.readouterr().err


def test_colour_only_on_a_terminal_and_if_wanted(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert run(["help", "ls"]) == 0
    assert "\x1b" not in capsys.readouterr().out
    monkeypatch.setattr(screen, "is_terminal", lambda: True)
    assert run(["help", "ls"]) == 0
    assert "\x1b[1mExamples:\x1b[0m" in capsys.readouterr().out
    monkeypatch.setenv("NO_COLOR", "1")
    assert run(["help", "ls"]) == 0
    assert "\x1b" not in capsys.readouterr().out


def test_help_and_completion_answer_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["help", "ls", "--json"]) == 0
    assert capsys.readouterr().out.startswith('{"help": "Usage: stoker ls')
    assert run(["completion", "zsh", "--json"]) == 0
    assert capsys.readouterr().out.startswith('{"shell": "zsh"')
    assert run(["completion", "csh"]) == 2
    assert "bash, zsh, fish" in capsys.readouterr().err
