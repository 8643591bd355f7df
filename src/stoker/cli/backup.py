"""`stoker backup`: records, outputs and settings as one file, while the server is at work."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path

import click

from stoker.text.amounts import memory

from .command import command as declare
from .command import json_option, option
from .progress import MIB, Line
from .records import existing, settled, understood
from .say import tell


@declare("backup")
@click.argument("target", metavar="[FILE|FOLDER]", default="")
@option("--no-logs", is_flag=True)
@json_option
def command(target: str, no_logs: bool, as_json: bool) -> None:
    from stoker import __version__
    from stoker.runner import killpoint
    from stoker.store.backup import back_up, default_name

    killpoint.arm(os.environ.get("STOKER_KILL_POINTS", ""))
    home, database = settled()
    path = Path(os.path.abspath(target or "."))
    if path.is_dir():
        path /= default_name(datetime.now(UTC))
    line = Line()
    try:
        with understood(existing(database)):
            made = back_up(
                home,
                database,
                path,
                version=__version__,
                with_logs=not no_logs,
                progress=line.bytes,
            )
    finally:
        line.end()
    manifest = made.manifest
    outputs = sum(member.name.startswith("logs/") for member in manifest.files)
    if as_json:
        facts = {
            "path": str(made.path),
            "bytes": made.bytes,
            "made_at": manifest.made_at,
            "schema": manifest.schema,
            "database": manifest.database,
            "epoch": manifest.epoch,
            "records": manifest.records,
            "logs": outputs,
        }
        print(json.dumps(facts, ensure_ascii=False))
        return
    size = memory(-(-made.bytes // MIB))
    tell("backup.done", path=str(made.path), size=size)
    tell("backup.holds", tasks=manifest.records["tasks"], logs=outputs)
    tell("backup.token")
