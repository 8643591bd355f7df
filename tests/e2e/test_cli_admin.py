"""What looks after a lab, through the real command line: pause, announcement, settings, audit, log."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from stoker.client import Client, TaskSpec

from .conftest import Stoker, until

CHINESE = {"LANG": "zh_CN.UTF-8"}


def state(stoker: Stoker, id: str) -> str:
    return str(stoker.task(id)["state"])


def test_settings_take_effect_at_once_and_outlive_a_restart(own: Stoker) -> None:
    own.home.mkdir(mode=0o700)
    (own.home / "config.toml").write_text("keep_days = 30\n")
    own.up()
    listed = own("settings", "ls").stdout
    assert re.search(r"^keep_days +30 +config.toml ", listed, re.MULTILINE)
    assert "wins over config.toml" in listed
    assert "可随时" not in own("settings", "ls", env=CHINESE).stdout
    assert "谁先运行" in own("settings", "ls", env=CHINESE).stdout
    holder = own.submit("--gpus", "4", "--", "sleep", "600")
    waits = own.submit("--gpus", "4", "--", "sleep", "600")
    until(lambda: state(own, holder) == "RUNNING")
    assert state(own, waits) == "QUEUED"

    said = own("settings", "set", "gpu_slots", "2").stdout
    assert said == "gpu_slots: 1 → 2 (changed, default 1)\n"
    until(lambda: state(own, waits) == "RUNNING")
    own("settings", "set", "keep_days", "7")
    own("settings", "set", "keep_idle_s", "4h")
    own("settings", "set", "reuse_any", "yes")
    assert own("settings", "get", "keep_idle_s").stdout == "14400\n"
    own("down")
    own.up()
    assert own("settings", "get", "keep_days").stdout == "7\n"
    assert own("settings", "unset", "keep_days").stdout == "keep_days: 7 → 30 (config.toml)\n"
    assert "`stoker settings ls` shows" in own("config", "show").stdout
    for typed, complaint in (
        (("policy", "fif"), "policy: `fif` is not one of: balance, fifo, fairshare."),
        (("gpu_slots", "65"), "gpu_slots: too large: at most 64."),
        (("reuse_any", "perhaps"), "reuse_any: `perhaps` is neither yes nor no."),
        (("gpu_slots", "two"), "gpu_slots: `two` is not a whole number."),
        (("polcy", "fifo"), "polcy: there is no such setting. Did you mean `policy`?"),
    ):
        assert own("settings", "set", *typed, code=2).stderr == f"stoker: {complaint}\n"


def test_a_pause_is_told_everywhere_and_outlives_a_crash(own: Stoker) -> None:
    own.up()
    running = own.submit("--gpus", "1", "--", "sleep", "600")
    until(lambda: state(own, running) == "RUNNING")
    assert "Running tasks go on" in own("pause", "new", "disks").stdout
    id = own.submit("--gpus", "1", "--", "true")
    own.kill_server()
    own.up()

    told = own("why", id).stdout
    assert told.splitlines()[0].endswith(": new disks")
    assert "waits: Scheduling is paused by" in told
    for command in (("ls",), ("nodes",), ("show", id)):
        assert "(new disks): nothing new starts" in own(*command).stderr
    assert "停止调度（new disks）" in own("ls", env=CHINESE).stderr
    assert own("ls", "--json").stderr == ""
    assert "(new disks)" in own("top", "--once").stdout
    assert (state(own, running), state(own, id)) == ("RUNNING", "QUEUED")
    assert own("pause", "--off", "why", code=2).stderr == "stoker: WHY: --off needs no reason.\n"
    assert own("pause", "--off").stdout == "Tasks start again.\n"
    own("wait", id)
    assert own("ls").stderr == ""


def test_an_announcement_reaches_everybody_and_goes(stoker: Stoker) -> None:
    assert stoker("announce").stdout == "There is no announcement.\n"
    stoker("announce", "周五", "22:00", "save!")
    for command in (("ls",), ("nodes",), ("submit", "--hold", "--", "true")):
        assert stoker(*command).stderr == "Announcement: 周五 22:00 save!\n"
    assert "Announcement: 周五 22:00 save!" in stoker("top", "--once").stdout
    assert stoker("ls", "--json").stderr == ""
    assert stoker("announce").stdout.startswith("周五 22:00 save!  (")
    stoker("announce", "--clear")
    assert stoker("ls").stderr == ""
    refused = stoker("announce", "two\nlines", code=2).stderr
    assert refused == "stoker: text: it has to be one line, without control characters.\n"


def test_the_audit_trail_is_listed_exported_and_verified(stoker: Stoker, tmp_path: Path) -> None:
    stoker("drain", stoker.json("nodes")[0]["name"], "--why", "fan\x1b[31m\nx")
    stoker("resume", stoker.json("nodes")[0]["name"])
    listed = stoker("audit", "ls", "--act", "node").stdout
    assert "\x1b" not in listed
    assert "why=fan\\x1b[31m\\nx" in listed
    assert len(listed.splitlines()) == 3

    counted, head = stoker("audit", "verify").stdout.splitlines()
    assert "follow one from another" in counted
    exported = tmp_path / "audit.jsonl"
    stoker("audit", "export", "-o", str(exported))
    said = stoker("audit", "verify", "--file", str(exported), "--head", head).stdout
    assert "everything up to it is as it was" in said
    stoker("audit", "verify", "--head", head)
    stoker("audit", "verify", "--head", "0" * 64, code=1)
    lines = exported.read_text().splitlines()
    (tmp_path / "cut.jsonl").write_text("\n".join(lines[1:]))
    assert (
        "broken at act 1"
        in stoker("audit", "verify", "--file", str(tmp_path / "cut.jsonl"), code=1).stdout
    )
    stoker("audit", "verify", "--file", str(stoker.home / "token"), code=2)
    assert json.loads(stoker("audit", "export").stdout.splitlines()[0])["seq"] == 1


def test_a_broken_trail_is_said_with_its_number(stoker: Stoker) -> None:
    for days in ("1", "2", "3"):
        stoker("settings", "set", "keep_days", days)
    with closing(sqlite3.connect(stoker.home / "stoker.db")) as database, database:
        (kept,) = database.execute("SELECT body FROM audit WHERE seq = 2").fetchone()
        database.execute("UPDATE audit SET body = body || ' ' WHERE seq = 2")
    assert "broken at act 2" in stoker("audit", "verify", code=1).stdout
    assert json.loads(stoker("audit", "verify", "--json", code=1).stdout)["broken"] == 2
    with closing(sqlite3.connect(stoker.home / "stoker.db")) as database, database:
        database.execute("UPDATE audit SET body = ? WHERE seq = 2", (kept,))
    stoker("audit", "verify")


def test_the_server_log_for_everybody_and_in_full(stoker: Stoker) -> None:
    id = stoker.submit("-n", "secret-name", "--", "echo", "secret-word")
    stoker("wait", id)
    said = stoker("server-log").stdout
    assert f"submitted task {id} (GPUs: 0)." in said
    assert f"Task {id} of " in said
    assert "secret" not in said
    assert "提交了任务" in stoker("server-log", "-n", "5", env=CHINESE).stdout
    assert f"task_id={id} " in stoker("server-log", "--full").stdout


@pytest.mark.parametrize("options", [(), ("--full",)])
def test_the_server_log_is_followed(stoker: Stoker, options: tuple[str, ...]) -> None:
    follower = stoker.begin("server-log", "-f", "-n", "1", *options)
    seen: list[bytes] = []
    assert follower.stdout is not None

    def read() -> None:
        seen.extend(iter(follower.stdout.readline, b""))  # type: ignore[union-attr]

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    until(lambda: seen)
    id = stoker.submit("--hold", "--", "true")
    wanted = f"task_id={id} " if options else f"submitted task {id} "
    until(lambda: wanted.encode() in b"".join(seen))
    follower.kill()
    reader.join(10)


def test_the_log_of_a_detached_server_is_begun_anew_while_it_runs(own: Stoker) -> None:
    own.home.mkdir(mode=0o700)
    log = own.home / "server.log"
    with open(log, "wb") as file:
        file.truncate(20 << 20)
    own.up()  # too large at the start
    assert (own.home / "server.log.1").stat().st_size == 20 << 20
    with open(log, "ab") as file:
        os.truncate(file.fileno(), 20 << 20)
    spec = TaskSpec(command=("true",), workdir="/", hold=True)
    with Client(home=own.home) as client:  # a line each
        for _ in range(40):
            client.submit_many([spec] * 20)
    assert log.stat().st_size < 10 << 20
    assert (own.home / "server.log.1").stat().st_size > 20 << 20
    own("submit", "--hold", "--", "true")
    until(lambda: b"event=Submitted" in log.read_bytes())
