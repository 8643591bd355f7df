"""A backup put back is what was there; killed at any point, the folder is the old one or the new."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from stoker.domain.errors import StoreError
from stoker.runner import killpoint
from stoker.store.archive import Reader
from stoker.store.backup import back_up
from stoker.store.base import Restored
from stoker.store.copying import copy_records
from stoker.store.database import ServerLock, as_url
from stoker.store.pending import is_pending
from stoker.store.recorder import open_store
from stoker.store.restore import finish, restore
from tests.helpers.records import fill, held_by

TOKEN = "stk_a-secret-of-the-lab"
CONFIG = 'policy = "fifo"\ndatabase = "postgresql://stoker:hunter2@db/stoker"\ngpu_slots = 2\n'
LOG = Path("logs/ab") / f"ab{'0' * 30}.0.stdout"

ACT = """
import os, sys
from pathlib import Path
from stoker.runner import killpoint
from stoker.store.backup import back_up
from stoker.store.restore import finish, restore
killpoint.arm(os.environ["POINTS"])
what, one, other = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
nothing = lambda *_: None
if what == "backup":
    back_up(one, one / "stoker.db", other, version="1", with_logs=True, progress=nothing)
elif what == "restore":
    restore(one, other, nothing)
else:
    finish(other)
"""


def nothing(_what: str, _done: int, _total: int) -> None:
    pass


@pytest.fixture
async def home(tmp_path: Path) -> Path:
    """A state folder with records, an output with a hole, settings and a token."""
    home = tmp_path / "home"
    home.mkdir()
    await fill(home)
    (home / LOG).parent.mkdir(parents=True)
    with (home / LOG).open("wb") as log:
        log.write(b"begin")
        log.seek(1 << 20)
        log.write(b"end")
    (home / "logs/ab/half.part").write_bytes(b"not whole")
    (home / "config.toml").write_text(CONFIG)
    (home / "token").write_text(TOKEN)
    return home


@pytest.fixture
def backup(home: Path, tmp_path: Path) -> Path:
    path = tmp_path / "backup.tar"
    back_up(home, home / "stoker.db", path, version="1.0", with_logs=True, progress=nothing)
    return path


@pytest.fixture
def points(tmp_path: Path) -> Path:
    folder = tmp_path / "points"
    folder.mkdir()
    return folder


def act(points: Path, what: str, one: Path, other: Path) -> int:
    env = os.environ | {"PYTHONPATH": ":".join(sys.path), "POINTS": str(points)}
    command = [sys.executable, "-c", ACT, what, str(one), str(other)]
    return subprocess.run(command, env=env, check=False, timeout=60).returncode


def told(home: Path) -> dict[str, object]:
    """What makes the records of a folder; the epoch and the mark are of a restore."""
    return {name: one for name, one in held_by(home / "stoker.db").items() if name != "meta"}


async def another(home: Path) -> None:
    """The records go on after the backup."""
    with closing(open_store(home / "stoker.db")) as store:
        for _ in range(3):
            await store.raise_epoch()
        await store.remember("later", "yes")
    (home / "config.toml").write_text('policy = "balance"\n')


async def recalled(home: Path, name: str) -> str | None:
    with closing(open_store(home / "stoker.db")) as store:
        return await store.recall(name)


async def test_what_was_backed_up_is_put_back(home: Path, backup: Path, tmp_path: Path) -> None:
    before, log = told(home), (home / LOG).read_bytes()
    elsewhere = tmp_path / "elsewhere"
    now = int(time.time())

    done = restore(backup, elsewhere, nothing)

    assert told(elsewhere) == before
    assert (elsewhere / LOG).read_bytes() == log
    assert (elsewhere / LOG).stat().st_blocks * 512 < 1 << 19
    assert done.aside is None
    assert done.epoch >= now
    with closing(open_store(elsewhere / "stoker.db")) as store:
        assert store.check() == []
        assert await store.raise_epoch() == done.epoch + 1
        mark = msgspec.json.decode(await store.recall("restored") or "", type=Restored)
        live = [attempt.launch_number for _, attempt in await store.live()]
    assert {name: node.above for name, node in mark.nodes.items()} == {"node-a": min(live) - 1}
    assert mark.nodes["node-a"].spool == "fake-spool"


def test_secrets_are_not_in_it(home: Path, backup: Path, tmp_path: Path) -> None:
    raw = backup.read_bytes()
    assert TOKEN.encode() not in raw
    assert b"hunter2" not in raw
    assert backup.stat().st_mode & 0o777 == 0o600
    restore(backup, tmp_path / "elsewhere", nothing)
    settings = (tmp_path / "elsewhere" / "config.toml").read_text()
    assert 'policy = "fifo"' in settings
    assert "gpu_slots = 2" in settings
    assert "postgresql" not in settings


def test_the_manifest_says_what_it_holds(home: Path, backup: Path) -> None:
    with closing(Reader(backup)) as reader:
        manifest = reader.manifest
    assert (manifest.stoker, manifest.schema) == ("1.0", "0003")
    assert manifest.records == {k: v.rows for k, v in held_by(home / "stoker.db").items()}
    names = [member.name for member in manifest.files]
    assert names[:2] == ["stoker.db", "config.toml"]
    assert (
        set(names[2:])
        == {str(path.relative_to(home)) for path in home.glob("logs/*/*.stdout")}
        >= {str(LOG)}
    )


def test_without_logs(home: Path, tmp_path: Path) -> None:
    path = tmp_path / "small.tar"
    made = back_up(home, home / "stoker.db", path, version="1", with_logs=False, progress=nothing)
    assert [member.name for member in made.manifest.files] == ["stoker.db", "config.toml"]
    with pytest.raises(StoreError) as refused:
        back_up(home, home / "stoker.db", path, version="1", with_logs=False, progress=nothing)
    assert refused.value.code == "backup_exists"


def test_records_on_postgresql_become_a_file(home: Path, postgres_url: str, tmp_path: Path) -> None:
    copy_records(as_url(home / "stoker.db"), as_url(postgres_url))
    path = tmp_path / "backup.tar"

    back_up(home, postgres_url, path, version="1", with_logs=False, progress=nothing)

    restore(path, tmp_path / "elsewhere", nothing)
    assert told(tmp_path / "elsewhere") == told(home)
    with closing(open_store(tmp_path / "elsewhere" / "stoker.db")) as store:
        assert store.check() == []


async def test_what_was_there_is_kept_beside(home: Path, backup: Path) -> None:
    await another(home)
    newer = home / "logs/cd" / f"cd{'0' * 30}.0.stdout"
    newer.parent.mkdir()
    newer.write_bytes(b"after the backup")

    done = restore(backup, home, nothing)

    assert done.aside is not None
    assert await recalled(done.aside, "later") == "yes"
    assert (done.aside / "config.toml").read_text() == 'policy = "balance"\n'
    assert await recalled(home, "later") is None
    assert newer.read_bytes() == b"after the backup", "outputs are only added"
    assert (done.logs, (home / "token").read_text()) == (0, TOKEN)


def test_a_served_folder_is_refused(home: Path, backup: Path) -> None:
    before = told(home)
    lock = ServerLock(home / "stoker.db.lock")
    try:
        with pytest.raises(StoreError) as refused:
            restore(backup, home, nothing)
    finally:
        lock.close()
    assert refused.value.code == "already_served"
    assert told(home) == before


def test_a_damaged_or_newer_one_changes_nothing(
    home: Path, backup: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = sorted(path.name for path in home.iterdir())
    raw = bytearray(backup.read_bytes())
    raw[5000] ^= 1
    damaged = backup.with_name("damaged.tar")
    damaged.write_bytes(raw)
    with pytest.raises(StoreError) as refused:
        restore(damaged, home, nothing)
    assert refused.value.code == "backup_damaged"

    monkeypatch.setattr("stoker.store.restore.newest", lambda: "0001")
    with pytest.raises(StoreError) as refused:
        restore(backup, home, nothing)
    assert refused.value.code == "newer_backup"
    assert sorted(path.name for path in home.iterdir()) == names


@pytest.mark.parametrize("point", [killpoint.SNAPSHOT, killpoint.ARCHIVED])
def test_a_killed_backup_leaves_nothing_with_its_name(
    home: Path, tmp_path: Path, points: Path, point: str
) -> None:
    before, path = told(home), tmp_path / "killed.tar"
    (points / point).touch()

    assert act(points, "backup", home, path) == -9

    assert not path.exists()
    assert told(home) == before
    assert act(points, "backup", home, path) == 0
    with closing(Reader(path)) as reader:
        reader.verify(lambda _more: None)


OLD = (killpoint.UNPACKED,)
NEW = (killpoint.DECIDED, killpoint.ASIDE, killpoint.SWAPPED)


@pytest.mark.parametrize("point", OLD)
async def test_a_restore_that_was_killed_early_has_not_happened(
    home: Path, backup: Path, points: Path, point: str
) -> None:
    await another(home)
    old = held_by(home / "stoker.db")
    (points / point).touch()

    assert act(points, "restore", backup, home) == -9

    assert not is_pending(home)
    finish(home)  # as `stoker up` does
    assert held_by(home / "stoker.db") == old
    assert (home / "config.toml").read_text() == 'policy = "balance"\n'
    restore(backup, home, nothing)
    await assert_restored(home)


@pytest.mark.parametrize("point", NEW)
async def test_a_restore_that_was_killed_late_is_brought_to_its_end(
    home: Path, backup: Path, points: Path, point: str
) -> None:
    await another(home)
    (points / point).touch()

    assert act(points, "restore", backup, home) == -9

    assert is_pending(home)
    finish(home)
    await assert_restored(home)


async def test_finishing_a_restore_may_be_killed_too(
    home: Path, backup: Path, points: Path
) -> None:
    await another(home)
    for what, point in (
        ("restore", killpoint.DECIDED),
        ("finish", killpoint.ASIDE),
        ("finish", killpoint.ASIDE),
        ("restore", killpoint.SWAPPED),
    ):
        (points / point).touch()
        assert act(points, what, backup, home) == -9
        assert is_pending(home)
    finish(home)
    await assert_restored(home)


async def assert_restored(home: Path) -> None:
    """New, and what was there is whole."""
    assert not is_pending(home)
    assert not (home / "restoring").exists()
    assert await recalled(home, "later") is None
    assert 'policy = "fifo"' in (home / "config.toml").read_text()
    (aside,) = home.glob("before-restore-*")
    assert await recalled(aside, "later") == "yes"
    assert (aside / "config.toml").read_text() == 'policy = "balance"\n'
    for folder in (home, aside):
        with closing(open_store(folder / "stoker.db")) as store:
            assert store.check() == []
