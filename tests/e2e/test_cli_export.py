"""`stoker export` as a person types it: whole files, or none."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import pty
import subprocess
from pathlib import Path

from tests.helpers.many import record_many

from .conftest import Stoker, until


def rows(path: Path) -> list[dict[str, str]]:
    with open(path, encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def test_an_export(stoker: Stoker) -> None:
    first = stoker.submit("-n", "=1+1", "--gpus", "2", "--", "true")
    second = stoker.submit("-n", "失败", "-c", "exit 3")
    stoker("wait", first, second, code=1)
    array = stoker.submit("--array", "0-3", "-c", "exit $STOKER_ARRAY_INDEX")
    stoker("wait", array, code=1)
    file = stoker.work / "任务 1.csv"

    said = stoker("export", "-o", str(file)).stdout

    assert said == f"3 rows written to {file}\n"
    assert file.read_bytes().startswith(b"\xef\xbb\xbfid,name,owner,")
    found = {row["id"]: row for row in rows(file)}
    assert found.keys() == {first, second, array}
    assert (found[first]["name"], found[second]["name"]) == ("'=1+1", "失败")
    assert (found[second]["outcome"], found[second]["exit_code"]) == ("failed", "3")
    assert float(found[first]["gpu_hours"]) > 0
    assert (found[array]["elements"], found[array]["failed"]) == ("4", "3")

    assert "--force" in stoker("export", "-o", str(file), code=2).stderr
    assert rows(file)[0].keys() == found[array].keys()
    stoker("export", "-o", str(file), "--force", "--columns", "id", "--last", "1")
    assert rows(file) == [{"id": array}]
    assert sorted(os.listdir(stoker.work)) == [file.name], "nothing is left beside it"

    told = stoker("export", "--json", "--elements", array).stdout.splitlines()
    assert [json.loads(line)["id"] for line in told] == [f"{array}_{n}" for n in range(4)]
    jsonl = stoker.work / "x.jsonl"
    assert stoker.json("export", "-o", str(jsonl), "--outcome", "failed") == {
        "file": str(jsonl), "rows": 2,
    }  # fmt: skip
    assert {json.loads(line)["id"] for line in jsonl.read_text().splitlines()} == {second, array}
    assert stoker("export", "--until", "1h", "--columns", "id").stdout.lstrip("\ufeff").split() == [
        "id"
    ]


def test_refusals(stoker: Stoker) -> None:
    waiting = stoker.submit("--hold", "--", "true")
    for args, said in [
        ((waiting,), "has not finished"),
        (("999",), "There is no task 999"),
        (("--since", "soon"), "since: `soon` is not a time"),
        (("--columns", "id,nope"), "`nope` is not one of"),
        (("--last", "0"), "last: "),
        (("-o", "/dev/null"), "output: "),
        (("-o", str(stoker.work / "no" / "folder.csv")), "No such file"),
    ]:
        assert said in stoker("export", *args, code=2).stderr, args
    stoker("cancel", waiting)


def test_a_killed_server_is_noticed(own: Stoker) -> None:
    own.home.mkdir(mode=0o700)
    record_many(own.home, 1500)
    own.up()
    reading = own.begin("export", "--format", "jsonl")
    assert reading.stdout is not None
    begun = reading.stdout.read(100)
    file = own.work / "all.csv"
    whole = own("export", "-o", str(file), "--columns", "id").stdout
    own.kill_server()

    out, err = reading.communicate(timeout=60)

    assert reading.returncode == 3
    assert b"cut short" in err
    assert len((begun + out).splitlines()) < 1500
    assert "1500 rows" in whole
    assert len(rows(file)) == 1500


def test_old_ones_go_with_their_output(own: Stoker) -> None:
    own.up()
    ids = [own.submit("--", "echo", "hello") for _ in range(4)]
    own("wait", *ids)
    waits = own.submit("--hold", "--after", f"{ids[0]}:ok", "--", "true")
    until(lambda: len(list((own.home / "logs").rglob("*.stdout"))) == 4)
    own("down")
    own.env["STOKER_KEEP_TASKS"] = "2"
    own.up()

    until(lambda: {task["id"] for task in own.json("ls", "-a")} == {ids[0], *ids[2:], waits})

    until(lambda: len(list((own.home / "logs").rglob("*.stdout"))) == 3)
    assert b"hello\n" in own.output(ids[3])
    assert f"There is no task {ids[1]}" in own("show", ids[1], code=2).stderr
    own("cancel", waits)
    own.env["STOKER_KEEP_DAYS"] = "-1"
    own("down")
    assert "keep_days" in own("up", "--detach", code=2).stderr
    del own.env["STOKER_KEEP_DAYS"]


def test_a_terminal_obeys_nothing_of_it(stoker: Stoker) -> None:
    id = stoker.submit("-n", "evil\x1b]0;title\x07\u202ename", "--", "true")
    stoker("wait", id)
    leader, follower = pty.openpty()
    child = subprocess.Popen(
        stoker.command("export", id, "--columns", "id,name"),
        env=stoker.env,
        stdin=subprocess.DEVNULL,
        stdout=follower,
    )
    os.close(follower)
    shown = b""
    with contextlib.suppress(OSError):  # how a terminal says that nobody writes any more
        while more := os.read(leader, 4096):
            shown += more
    os.close(leader)

    assert child.wait(30) == 0
    assert shown.split(b"\r\n") == [
        b"id,name",
        id.encode() + rb",evil\x1b]0;title\x07\u202ename",
        b"",
    ]
