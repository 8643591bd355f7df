"""Every command with its help, as a terminal in English shows it."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator

import click

from stoker.cli.run import COMMANDS, stoker


def page() -> str:
    parts = [
        "# Commands",
        "",
        "What `stoker COMMAND --help` prints. In a Chinese locale (`LC_ALL`, `LC_MESSAGES` or `LANG`) "
        "the commands speak Chinese. A task is named by its number.",
        "",
        "Exit codes: 0 done; 1 a task did not succeed (`wait`); 2 refused or wrong usage, one line "
        "on stderr; 3 the server is not reachable; 124 `wait --timeout` ran out; 130 interrupted.",
        "",
        "Environment: `STOKER_HOME` chooses the state folder, `STOKER_URL` and `STOKER_TOKEN` another "
        "server; see [settings.md](settings.md).",
        "",
    ]
    for words, command in commands():
        parts += [f"## stoker {words}", "", "```text", _help_of(words, command), "```", ""]
    return "\n".join(parts)


def commands() -> Iterator[tuple[str, click.Command]]:
    """Every command with the words that call it, those below a command included."""
    for name in COMMANDS:
        command = command_of(name)
        yield name, command
        if isinstance(command, click.Group):
            for below, inner in sorted(command.commands.items()):
                yield f"{name} {below}", inner


def command_of(name: str) -> click.Command:
    found = stoker.get_command(click.Context(stoker), name)
    assert found is not None
    return found


def _help_of(words: str, command: click.Command) -> str:
    outer = click.Context(stoker, info_name="stoker")
    settings = {"help_option_names": command.context_settings["help_option_names"]}
    context = click.Context(command, parent=outer, info_name=words.rpartition(" ")[2], **settings)
    with contextlib.redirect_stdout(io.StringIO()):  # nobody looks on a terminal
        return command.get_help(context).strip()
