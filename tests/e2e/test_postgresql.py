"""A Stoker whose records are on PostgreSQL, as an admin sets it up: by a URL with a password."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from stoker.store.database import as_url
from stoker.store.recorder import open_store
from tests.helpers.postgres import LOCKED, PASSWORD, Postgres

from .conftest import PATIENCE_S, Stoker, until


@pytest.fixture
def url(postgres: Postgres) -> Iterator[str]:
    """An empty database that belongs to a role with a password."""
    made = postgres.fresh(migrated=False)
    name = as_url(made).database
    with postgres.admin() as admin:
        admin.execute(f"ALTER DATABASE {name} OWNER TO {LOCKED}")
    yield postgres.url(str(name), LOCKED, PASSWORD)
    postgres.give_back(made)


@pytest.fixture
def on_postgres(tmp_path: Path, url: str) -> Iterator[Stoker]:
    made = Stoker(tmp_path / "one")
    made.home.mkdir(mode=0o700)
    (made.home / "config.toml").write_text(f'database = "{url}"\n')
    yield made
    assert made.clean_up() == []
    with closing(open_store(url)) as store:
        assert store.check() == []
    assert not (made.home / "stoker.db").exists()
    assert PASSWORD not in (made.home / "server.log").read_text()


def refused(stoker: Stoker, url: str) -> str:
    """What a server says that does not start: the last line, the only one about it."""
    done = subprocess.run(
        stoker.command("up", "--listen", "127.0.0.1:0"),
        env=stoker.env | {"STOKER_DATABASE": url},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 2, done
    assert "Traceback" not in done.stderr
    assert PASSWORD not in done.stdout + done.stderr
    lines = [line for line in done.stderr.splitlines() if "root" not in line]
    assert len(lines) == 1, done.stderr
    return lines[0]


def test_a_task_outlives_the_server_and_a_second_server_is_refused(
    on_postgres: Stoker, tmp_path: Path, url: str
) -> None:
    stoker = on_postgres
    stoker.up()
    flag = stoker.work / "flag"
    line = f"while [ ! -e {flag} ]; do sleep 0.05; done; echo done"
    id = stoker.submit("--gpus", "1", "--", "sh", "-c", line)
    until(lambda: stoker.task(id)["state"] == "RUNNING")
    for pid in stoker.processes():
        assert PASSWORD.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes()
        assert PASSWORD.encode() not in Path(f"/proc/{pid}/environ").read_bytes()
    shown = stoker("config", "show", "--json").stdout
    assert PASSWORD not in shown + stoker("config", "show").stdout
    assert json.loads(shown)["database"] == {"value": "***", "from": "file"}

    second = Stoker(tmp_path / "two")
    said = refused(second, url)
    assert f"Another server already uses the database {as_url(url).database}" in said
    assert f"pid {stoker.server_pid}" in said

    stoker.kill_server()
    stoker.up()
    assert stoker.task(id)["state"] == "RUNNING"
    flag.touch()
    stoker("wait", id)
    assert stoker.task(id)["attempts"] == 1
    assert stoker.output(id) == b"done\n"


def test_a_server_whose_records_went_on_without_it_ends(
    on_postgres: Stoker, postgres: Postgres, url: str
) -> None:
    stoker = on_postgres
    server = stoker.begin("up", "--simulate-gpus", "4", "--listen", "127.0.0.1:0")
    assert server.stdout is not None
    until((stoker.home / "server.json").exists)
    log = stoker.home / "server.log"  # as when it is detached
    with postgres.admin(str(as_url(url).database)) as admin:
        admin.execute("UPDATE meta SET value = (value::int + 1)::text WHERE key = 'epoch'")
    postgres.cut(url)

    _, said = server.communicate(timeout=PATIENCE_S)  # by itself: nobody asks it anything

    assert server.returncode == 1, said
    assert b"event=outdated why='epoch 2 of another server follows our 1'" in said
    log.write_bytes(said)


@pytest.mark.parametrize(
    ("of", "sentence"),
    [
        ("postgresql://ana:{password}@127.0.0.1:1/lab", "The database lab at 127.0.0.1:1 cannot"),
        ("postgresql://locked:x{password}@/{name}?host={host}", "does not let this server in"),
        ("postgresql://locked:{password}@/nowhere?host={host}", "There is no database nowhere"),
        ("postgresql://ana:{password}@db:x/lab", "this is not the URL of a database"),
        ("ana:{password}@db/lab", "this is not the URL of a database"),
        ("oracle://ana:{password}@db/lab", "oracle is not a database that can be used"),
    ],
)
def test_a_database_that_cannot_be_opened_is_one_sentence(
    tmp_path: Path, postgres: Postgres, url: str, of: str, sentence: str
) -> None:
    stoker = Stoker(tmp_path)
    name = as_url(url).database
    assert sentence in refused(
        stoker, of.format(password=PASSWORD, host=postgres.folder, name=name)
    )
    assert not (stoker.home / "stoker.db").exists()
