"""`stoker db`: the records themselves. `copy` moves them to another database, `check` looks them over.

A URL with a password need not be typed, where everybody on the machine can read it: environment
variables are read as well. No URL is printed with its password.
"""

from __future__ import annotations

import json
import os
from contextlib import ExitStack, closing
from pathlib import Path

import click

from .alive import server_pid
from .command import CONTEXT, Command, Group, json_option, option
from .command import command as declare
from .progress import Line
from .records import existing, settled, shown, understood
from .say import refuse, tell
from .screen import clean

TO, FROM = "STOKER_COPY_TO", "STOKER_COPY_FROM"


class Database(Group, Command):
    """Commands about the records."""


class CopyRecords(Command):
    key = "db_copy"


class CheckRecords(Command):
    key = "db_check"


@declare("copy", cls=CopyRecords)
@click.argument("url", metavar="[URL|PATH]", default="")
@option("--from", "source", metavar="URL|PATH", default="")
@json_option
def copy(url: str, source: str, as_json: bool) -> None:
    from stoker.runner import killpoint

    killpoint.arm(os.environ.get("STOKER_KILL_POINTS", ""))
    home, database = settled()
    pid = server_pid(home)
    if pid is not None:
        refuse("reset.served", pid=pid or "?")
    target = url or os.environ.get(TO, "")
    if not target:
        refuse("db.no_target", field="URL", variable=TO)
    _copy(home, source or os.environ.get(FROM, "") or database, target, as_json)


def _copy(home: Path, source: str, target: str, as_json: bool) -> None:
    from stoker.store.archive import CONFIG
    from stoker.store.copying import copy_records
    from stoker.store.database import as_url
    from stoker.store.recorder import open_store

    from_url, to_url = existing(source), as_url(target)
    if from_url == to_url:
        refuse("db.same", field="URL")
    line = Line()
    with ExitStack() as open_now:
        # Opened as a server would: locked against one, and brought to the present schema.
        for url in (source, target):
            open_now.enter_context(closing(open_store(url)))
        open_now.callback(line.end)
        open_now.enter_context(understood(from_url, to_url))
        sums = copy_records(from_url, to_url, line.rows)
    if as_json:
        tables = {name: {"rows": one.rows, "sha256": one.sha256} for name, one in sums.items()}
        facts = {"from": shown(from_url), "to": shown(to_url), "tables": tables}
        print(json.dumps(facts, ensure_ascii=False))
        return
    tell("db.copied", source=shown(from_url), target=shown(to_url))
    for name, one in sums.items():
        print(f"  {name:12} {one.rows:>10}  sha256 {one.sha256[:16]}…")
    config = home / CONFIG
    if to_url.get_backend_name() != "sqlite":
        tell("db.switch_to_server", config=str(config))
    elif to_url.database == str(home / "stoker.db"):
        tell("db.switch_to_file", config=str(config))
    else:
        tell("db.switch_by_moving", target=shown(to_url), home=str(home / "stoker.db"))


@declare("check", cls=CheckRecords)
@json_option
def check(as_json: bool) -> int:
    from stoker.store.checks import check as look
    from stoker.store.database import open_engine
    from stoker.store.migrate import newest, present
    from stoker.store.reading import ReadPool

    _, database = settled()
    url = existing(database)
    engine = open_engine(url, readonly=True)
    with understood(url):
        found = present(engine)
        if found != newest():
            refuse("db.other_schema", found=found or "-", known=newest())
        with closing(ReadPool(engine)) as pool:
            findings = look(pool)
    if as_json:
        print(json.dumps({"database": shown(url), "findings": findings}, ensure_ascii=False))
    elif findings:
        for sentence in findings:
            print(clean(sentence))
        tell("db.unsound", count=len(findings))
    else:
        tell("db.sound", database=shown(url))
    return 1 if findings else 0


@click.group("db", cls=Database, invoke_without_command=True, context_settings=CONTEXT)
@click.pass_context
def command(ctx: click.Context) -> None:
    if ctx.invoked_subcommand is None:
        print(ctx.get_help())


command.add_command(copy)
command.add_command(check)
