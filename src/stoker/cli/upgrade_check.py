"""`stoker upgrade-check`: whether this program can take over the state folder. Changes nothing.

An older database is brought forward in a copy that is thrown away: so what a start would do is
known before it is done.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from stoker.config import find_home
from stoker.store.pending import is_pending
from stoker.text import message

from .alive import live_parts, server_pid
from .command import command as declare
from .command import json_option
from .records import existing, settled, shown, understood
from .say import language, words
from .screen import clean, colour

if TYPE_CHECKING:
    import sqlalchemy as sa

MIB = 1 << 20
Finding = tuple[bool, str]
"""(well, a sentence)."""


@declare("upgrade-check")
@json_option
def command(as_json: bool) -> int:
    findings = _findings(find_home(os.environ))
    well = all(is_well for is_well, _ in findings)
    if as_json:
        facts = [{"ok": is_well, "what": what} for is_well, what in findings]
        print(json.dumps({"ok": well, "findings": facts}, ensure_ascii=False))
        return 0 if well else 1
    for is_well, what in findings:
        mark = colour("ok ", "green") if is_well else colour("!! ", "red")
        print(f"{mark} {clean(what)}")
    print(words("upgrade.fine" if well else "upgrade.not_fine"))
    return 0 if well else 1


def _findings(home: Path) -> list[Finding]:
    from stoker import __version__

    findings = [(True, words("upgrade.version", version=__version__))]
    if not home.exists():
        return [*findings, (True, words("upgrade.no_state", home=str(home)))]
    if is_pending(home):
        return [*findings, (False, message("restore_pending", {}, language()))]
    pid = server_pid(home)
    served = words("upgrade.down") if pid is None else words("upgrade.served", pid=pid or "?")
    findings.append((True, served))
    _, database = settled()
    if "://" not in database and not Path(database).is_file():
        findings.append((True, words("upgrade.no_state", home=str(home))))
    else:
        url = existing(database)
        with understood(url):
            findings += _records(home, url)
    return [*findings, *_spool(home)]


def _records(home: Path, url: sa.URL) -> list[Finding]:
    from stoker.store.database import open_engine
    from stoker.store.migrate import newest, present

    engine = open_engine(url, readonly=True)
    found, known = present(engine), newest()
    if found > known:
        return [(False, words("upgrade.newer", found=found, known=known))]
    if found == known:
        return [(True, words("upgrade.same", found=found)), *_checked(engine)]
    needed, free = _needed(url), shutil.disk_usage(home).free
    values = {"needed": _mib(needed), "free": _mib(free)}
    findings = [(True, words("upgrade.migrates", found=found or "-", known=known))]
    if free < needed:
        return [*findings, (False, words("upgrade.no_room", **values))]
    return [*findings, (True, words("upgrade.room", **values)), *_tried(home, engine)]


def _checked(engine: sa.Engine) -> list[Finding]:
    from stoker.store.checks import check
    from stoker.store.reading import ReadPool

    with closing(ReadPool(engine)) as pool:
        found = check(pool)
    if not found:
        return [(True, words("db.sound", database=shown(engine.url)))]
    return [(False, sentence) for sentence in found]


def _tried(home: Path, engine: sa.Engine) -> list[Finding]:
    """What a start would do, done to a copy."""
    from stoker.store.copying import snapshot_into
    from stoker.store.database import as_url, open_engine
    from stoker.store.migrate import migrate

    with tempfile.TemporaryDirectory(prefix="upgrade-check-", dir=home) as folder:
        copy = Path(folder) / "stoker.db"
        snapshot_into(engine, copy)
        migrate(open_engine(as_url(copy)))
        found = _checked(open_engine(as_url(copy), readonly=True))
    return [(True, words("upgrade.tried")), *[one for one in found if not one[0]]]


def _spool(home: Path) -> list[Finding]:
    """What runs must be understood by the runner that takes it over."""
    from stoker.runner.layout import RECORD
    from stoker.runner.lines import unpack
    from stoker.runner.prepare import FORMAT

    newer = 0
    for path in (home / "spool").glob(f"*{RECORD}"):
        try:
            lines = unpack(path.read_bytes())
        except OSError:
            continue  # it has just been forgotten
        newer += any(int(line.get("format", 0)) > FORMAT for line in lines)
    if newer:
        return [(False, words("upgrade.newer_records", count=newer))]
    return [(True, words("upgrade.running", count=live_parts(home)))]


def _needed(url: sa.URL) -> int:
    """For the copy that a start makes, and for what the migration itself writes."""
    if url.get_backend_name() != "sqlite":
        return 0
    files = (Path(f"{url.database}{end}") for end in ("", "-wal"))
    return 2 * sum(path.stat().st_size for path in files if path.exists())


def _mib(count: int) -> int:
    return -(-count // MIB)
