"""Backup, restore, copying and the check before an upgrade, as an admin does them."""

from __future__ import annotations

import json
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from stoker.runner import killpoint
from tests.e2e.conftest import Stoker, until


@pytest.fixture
def stoker(own: Stoker) -> Stoker:
    """Of this test alone, not started yet."""
    return own


@pytest.fixture
def cold(tmp_path: Path) -> Stoker:
    """One with records of the first version, on which no server gets as far as running."""
    made = Stoker(tmp_path)
    made.home.mkdir(mode=0o700)
    old = Path(__file__).parents[1] / "integration" / "store" / "records-0001.sql"
    with closing(sqlite3.connect(made.home / "stoker.db")) as records:
        records.executescript(old.read_text())
    return made


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Stoker]:
    """Another machine, as far as the two know of each other."""
    made = Stoker(tmp_path / "other")
    yield made
    assert made.clean_up() == []


def runs(stoker: Stoker, name: str) -> list[str]:
    path = stoker.work / name
    return path.read_text().split() if path.exists() else []


def counting(name: str, then: str = "true") -> tuple[str, str]:
    return "-c", f"echo $STOKER_TASK_ID >> {name}; {then}"


def test_what_ran_after_the_backup_does_not_run_again(stoker: Stoker) -> None:
    """One ends, one still runs, one starts and ends, one only waits: after the restore each is what
    it really is."""
    stoker.up()
    before = stoker.submit(*counting("runs"))
    until(lambda: stoker.task(before)["state"] == "FINISHED")
    gate, gate2 = stoker.work / "gate", stoker.work / "gate2"
    ends = stoker.submit(
        "--gpus", "1", *counting("runs", f"while [ ! -e {gate} ]; do sleep 0.1; done")
    )
    goes_on = stoker.submit(
        "--gpus", "1", *counting("runs", f"while [ ! -e {gate2} ]; do sleep 0.1; done; echo late")
    )
    until(lambda: len(runs(stoker, "runs")) == 3)
    starts = stoker.submit("--gpus", "3", *counting("runs", "exit 4"))
    waits = stoker.submit("--gpus", "4", *counting("runs"))
    made = stoker.json("backup", str(stoker.folder))
    assert (made["records"]["tasks"], made["logs"]) == (5, 1)

    later = stoker.submit("--gpus", "4", *counting("runs"))  # not in the backup
    stoker("cancel", later)
    gate.touch()
    until(lambda: stoker.task(starts)["state"] == "FINISHED")
    stoker("logs", starts)
    stoker("down")
    restored = stoker.json("restore", made["path"])
    assert (restored["running"], restored["records"]["tasks"]) == (1, 5)
    assert Path(restored["moved_to"], "stoker.db").exists()
    stoker.up()

    until(lambda: stoker.task(starts)["state"] == "FINISHED")
    assert stoker.task(ends)["outcome"] == "succeeded"
    assert (stoker.task(starts)["outcome"], stoker.task(starts)["attempts"]) == ("failed", 1)
    assert stoker.task(goes_on)["state"] == "RUNNING"
    assert stoker.task(waits)["state"] == "QUEUED"
    assert stoker.output(starts) == b""
    stoker("show", later, code=2)
    gate2.touch()
    until(lambda: stoker.task(waits)["state"] == "FINISHED")
    assert stoker.output(goes_on) == b"late\n"
    assert sorted(runs(stoker, "runs")) == sorted([before, ends, goes_on, starts, waits])
    assert "All well" in stoker("db", "check").stdout


def test_on_a_machine_that_knows_nothing_everything_waits_for_a_person(
    stoker: Stoker, other: Stoker
) -> None:
    """What was running is lost, what waited may have run: both are said, nothing starts."""
    stoker.up()
    running = stoker.submit("--gpus", "4", "--", "sleep", "600")
    until(lambda: stoker.task(running)["state"] == "RUNNING")
    waiting = stoker.submit("--gpus", "1", *counting("runs"))
    path = stoker.json("backup", str(stoker.folder))["path"]

    said = other("restore", path, "--to", str(other.home)).stdout
    assert "held" in said
    other.up()

    until(lambda: other.task(running)["state"] == "FINISHED")
    assert other.task(running)["outcome"] == "lost"
    until(lambda: other.task(waiting)["state"] == "HELD")
    why = other("why", waiting).stdout
    assert "may have run already" in why
    assert runs(other, "runs") == []
    other("release", waiting)
    until(lambda: other.task(waiting)["state"] == "FINISHED")


def test_a_killed_restore_is_finished_by_the_next_start(stoker: Stoker) -> None:
    stoker.up()
    stoker.submit(*counting("runs"))
    path = stoker.json("backup", str(stoker.folder))["path"]
    second = stoker.submit("--hold", "--", "true")
    stoker("down")
    points = stoker.folder / "points"
    points.mkdir()
    (points / killpoint.ASIDE).touch()

    stoker("restore", path, code=-signal.SIGKILL, env={"STOKER_KILL_POINTS": str(points)})

    assert "interrupted" in stoker("backup", code=2).stderr
    assert "interrupted" in stoker("upgrade-check", code=1).stdout
    stoker.up()
    stoker("show", second, code=2)
    until(lambda: stoker.task("1")["state"] == "FINISHED")
    assert runs(stoker, "runs") == ["1"]


def test_refusals_say_what_to_do(stoker: Stoker) -> None:
    assert "no records" in stoker("backup", code=2).stderr
    assert "no records" in stoker("db", "check", code=2).stderr
    stoker.up()
    path = stoker.json("backup", str(stoker.folder))["path"]
    assert "stoker down" in stoker("restore", path, code=2).stderr
    assert "stoker down" in stoker("db", "copy", "/nowhere/x.db", code=2).stderr
    assert "already" in stoker("backup", path, code=2).stderr
    stoker("down")
    damaged = stoker.folder / "damaged.tar"
    raw = bytearray(Path(path).read_bytes())
    raw[3000] ^= 1
    damaged.write_bytes(raw)
    assert "damaged" in stoker("restore", str(damaged), code=2).stderr
    assert "not a backup" in stoker("restore", "/etc/passwd", code=2).stderr
    assert "URL" in stoker("db", "copy", code=2).stderr
    env = {"STOKER_DATABASE": "postgresql://db/stoker"}
    assert "STOKER_DATABASE" in stoker("restore", path, code=2, env=env).stderr


def test_to_postgresql_and_back_through_the_command_line(stoker: Stoker, postgres_url: str) -> None:
    stoker.up()
    done = stoker.submit(*counting("runs"))
    held = stoker.submit("--hold", *counting("runs"))
    until(lambda: stoker.task(done)["state"] == "FINISHED")
    stoker("down")

    said = stoker("db", "copy", env={"STOKER_COPY_TO": postgres_url}).stdout
    assert "database = " in said
    again = stoker("db", "copy", env={"STOKER_COPY_TO": postgres_url}, code=2).stderr
    assert "has records already" in again
    config = stoker.home / "config.toml"
    config.write_text(f'database = "{postgres_url}"\n')
    stoker.up()
    assert stoker.task(held)["state"] == "HELD"
    stoker("release", held)
    until(lambda: stoker.task(held)["state"] == "FINISHED")
    assert runs(stoker, "runs") == [done, held]
    assert "All well" in stoker("db", "check").stdout
    path = stoker.json("backup", str(stoker.folder))["path"]
    stoker("down")

    (stoker.home / "stoker.db").unlink()
    stoker("db", "copy", str(stoker.home / "stoker.db"))
    config.unlink()
    stoker.up()
    assert stoker.task(held)["state"] == "FINISHED"
    stoker("down")
    stoker("restore", path)  # of PostgreSQL, into a file
    stoker.up()
    assert stoker.task(held)["state"] == "FINISHED"


def test_no_password_is_ever_shown(stoker: Stoker) -> None:
    stoker.up()
    stoker("down")
    url = "postgresql://stoker:hunter2@127.0.0.1:1/stoker?password=hunter3"
    for args, env in (
        (("db", "copy", url), {}),
        (("db", "copy"), {"STOKER_COPY_TO": url}),
        (("db", "copy", "--from", url, str(stoker.folder / "x.db")), {}),
        (("db", "check"), {"STOKER_DATABASE": url}),
        (("backup",), {"STOKER_DATABASE": url}),
    ):
        done = stoker(*args, code=2, env=env)
        assert "hunter" not in done.stdout + done.stderr, args
        assert "127.0.0.1" in done.stderr


def test_upgrade_check_says_what_a_start_would_do(stoker: Stoker) -> None:
    assert "no records" in stoker("upgrade-check").stdout
    stoker.up()
    stoker.submit("--hold", "--", "true")
    served = stoker.json("upgrade-check")
    assert served["ok"]
    stoker("down")

    database = stoker.home / "stoker.db"
    with closing(sqlite3.connect(database)) as records:
        records.execute("UPDATE alembic_version SET version_num = '9999'")
        records.commit()
    said = stoker("upgrade-check", code=1)
    assert "newer Stoker" in said.stdout
    refused = stoker.begin("up", "--listen", "127.0.0.1:0")
    assert b"newer version" in refused.communicate(timeout=60)[1]
    assert refused.returncode == 2
    with closing(sqlite3.connect(database)) as records:
        records.execute("UPDATE alembic_version SET version_num = '0003'")
        records.execute("UPDATE tasks SET state = 'QUEUED'")
        records.commit()
    broken = stoker("upgrade-check", code=1).stdout
    assert "events make it" in broken
    assert "events make it" in stoker("db", "check", code=1).stdout
    with closing(sqlite3.connect(database)) as records:
        records.execute("UPDATE tasks SET state = 'HELD'")
        records.commit()


def test_upgrade_check_tries_an_older_database_and_changes_nothing(cold: Stoker) -> None:
    database = cold.home / "stoker.db"
    before = database.read_bytes()

    said = cold("upgrade-check").stdout

    assert "from schema 0001 to 0003" in said
    assert "tried with a copy" in said
    assert database.read_bytes() == before
    assert [path.name for path in cold.home.iterdir()] == ["stoker.db"]


def test_a_start_that_is_killed_while_it_migrates_leaves_the_old_records(cold: Stoker) -> None:
    database, points = cold.home / "stoker.db", cold.folder / "points"
    points.mkdir()
    for point in (killpoint.SNAPSHOT, killpoint.MIGRATED):
        (points / point).touch()
        env = {"STOKER_KILL_POINTS": str(points)}
        cold("up", "--listen", "127.0.0.1:0", code=-signal.SIGKILL, env=env)

        with closing(sqlite3.connect(database)) as records:
            version = records.execute("SELECT version_num FROM alembic_version").fetchall()
            assert version == [("0001",)]
            assert records.execute("SELECT count(*) FROM tasks").fetchall() == [(8,)]
        copy = cold.home / "stoker.db.before-0001"
        assert copy.exists() == (point == killpoint.MIGRATED)
    assert json.loads(cold("upgrade-check", "--json").stdout)["ok"]
