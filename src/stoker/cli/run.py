"""Finds the command, runs it, and turns every way it can end into an exit code.

0 done, 1 the task failed (`wait`), 2 refused or bad usage (one line on stderr), 3 server not
reachable, 70 a bug of ours (with its traceback), 130 interrupted. A command's module is imported only when it is called, so that
`stoker ls` does not pay for the others.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module

import click
from typing_extensions import override

from .command import Group
from .say import Refusal, refuse
from .screen import clean

COMMANDS = (
    "up", "down", "submit", "ls", "show", "why", "top", "logs", "wait", "cancel", "hold", "release", "edit",
    "move", "extend", "share", "resubmit", "requeue", "delete", "export", "nodes", "drain", "resume", "notify", "queue", "team", "quota",
    "pause", "announce", "settings", "audit", "server-log", "reset", "backup", "restore", "db", "upgrade-check", "service",
    "config", "login", "logout", "me", "passwd", "token", "user", "help", "completion", "version",
)  # fmt: skip
"""Each is a module here with a `command` in it; headings.py says where `stoker --help` lists it."""
COMPLETE = "__complete"
"""What only the scripts of `stoker completion` call."""

ON_THE_SERVER = ("up", "down", "reset", "backup", "restore", "db", "upgrade-check", "service")
"""Commands that work on the machine that serves, which has to be Linux; all others work anywhere."""

REFUSED, UNREACHABLE, BUG, INTERRUPTED, PIPE_CLOSED = 2, 3, 70, 130, 141


class Stoker(Group):
    """The program. Knows its commands by name only."""

    @override
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    @override
    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        if cmd_name in ON_THE_SERVER and sys.platform != "linux":
            refuse("usage.on_the_server", name=cmd_name)
        module = import_module(f"stoker.cli.{cmd_name.replace('-', '_')}")
        found: click.Command = module.command
        return found

    @override
    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from .headings import overview

        formatter.write("\n".join(overview(COMMANDS)) + "\n")


@click.group("stoker", cls=Stoker, invoke_without_command=True, add_help_option=False)
@click.option("-h", "--help", "wants_help", is_flag=True)
@click.option("--version", "wants_version", is_flag=True)
@click.pass_context
def stoker(ctx: click.Context, wants_help: bool, wants_version: bool) -> None:
    if wants_version:
        from stoker import __version__

        print(f"stoker {__version__}")
        ctx.exit()
    if wants_help or ctx.invoked_subcommand is None:
        print(ctx.get_help())
        ctx.exit()


def run(args: list[str]) -> int:
    """Do what was typed; the exit code. Never raises for anything a person can cause."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    result: object
    try:
        if args[:1] == [COMPLETE]:
            from .complete import answer

            result = answer(stoker, args[1:])
        else:
            result = stoker.main(args, prog_name="stoker", standalone_mode=False)
        sys.stdout.flush()
    except Refusal as refusal:
        return _complain(refusal.line, refusal.field)
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except BrokenPipeError:
        _forget_stdout()
        return PIPE_CLOSED
    except Exception as error:
        from .refuse import explain

        explained = explain(error)
        if explained is None:
            sys.excepthook(type(error), error, error.__traceback__)
            return BUG
        code, line, field = explained
        _complain(line, field)
        return code
    return result if isinstance(result, int) else 0


def _complain(line: str, field: str) -> int:
    shown = f"{field}: {line}" if field else line
    print(f"stoker: {clean(shown)}", file=sys.stderr)
    return REFUSED


def _forget_stdout() -> None:
    """Whoever read our output has left: what is still buffered must not complain at the end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
