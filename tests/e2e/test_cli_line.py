"""What a person does with tasks that wait, and what he reads about it: through the real command line."""

from __future__ import annotations

import os
import pty
import re
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from .conftest import Stoker, until


@pytest.fixture(autouse=True)
def _all_ends(stoker: Stoker) -> Iterator[None]:
    """Every test finds all cards free."""
    yield
    waiting = stoker.json("ls", "-s", "waiting")
    left = [task["id"] for task in (*waiting, *stoker.json("ls", "-s", "live"))]
    for id in left:
        subprocess.run(
            stoker.command("cancel", id), env=stoker.env, capture_output=True, check=False
        )
    if left:
        stoker.json("wait", *left, code=1)


def fill(stoker: Stoker, gpus: int = 4, *options: str) -> str:
    """Something that holds cards until it is cancelled."""
    id = stoker.submit("--gpus", str(gpus), *options, "--", "sleep", "600")
    until(lambda: stoker.task(id)["state"] == "RUNNING")
    return id


def on_a_terminal(stoker: Stoker, answer: str, *args: str) -> tuple[int, str]:
    """Exit code and output of a command that may ask."""
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        stoker.command(*args),
        cwd=stoker.work,
        env=stoker.env,
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    os.close(theirs)
    os.write(ours, answer.encode())
    out, _ = child.communicate(timeout=60)
    os.close(ours)
    return child.returncode, out.decode()


def ids(tasks: list[dict[str, Any]]) -> list[str]:
    return [task["id"] for task in tasks]


# ---- why, and before it is submitted


def test_why_a_task_waits_and_what_starts_it(stoker: Stoker) -> None:
    holder = fill(stoker, 3)
    id = stoker.submit("--gpus", "2", "-n", "big", "--", "true")
    said = stoker("why", id).stdout.splitlines()
    assert said[0].startswith(f"Task {id} (big) waits: Needs 2 of the 4 GPUs on ")
    body = "\n".join(said[1:])
    assert re.search(rf"held by +task {holder} of \S+: \S+, GPU 0, 1, 2, no time limit", body)
    assert "first of 1" in body
    assert "Nobody can say" in body
    command = re.search(r"stoker (edit .*)$", body, re.MULTILINE)
    assert command is not None
    assert stoker.json("why", id)["reasons"][0]["code"] == "gpus_busy"
    changed = stoker(*command[1].split()).stdout
    assert changed.splitlines() == [f"Task {id} changed:", "  --gpus  2  →  1"]
    stoker("wait", id)
    assert "does not wait: succeeded." in stoker("why", id).stdout
    assert "does not wait: running for" in stoker("why", holder).stdout
    assert "正在等待" not in stoker("why", holder, env={"LANG": "zh_CN.UTF-8"}).stdout


def test_a_time_limit_says_when(stoker: Stoker) -> None:
    fill(stoker, 4, "--time-limit", "2h")
    id = stoker.submit("--gpus", "1", "--", "true")
    said = stoker("why", id).stdout
    assert re.search(r"until \d{4}-\d\d-\d\d \d\d:\d\d:\d\d at the latest", said)
    assert re.search(r"start +At \S+ \S+, in (1 h 59 min|2 h)\.", said)


def test_a_dry_run_submits_nothing(stoker: Stoker) -> None:
    before = ids(stoker.json("ls", "-a"))
    said = stoker("submit", "--dry-run", "--gpus", "2", "--", "true").stdout
    assert re.fullmatch(r"It would start now on \S+, GPU 0, 1\.\n", said)
    fill(stoker, 3)
    said = stoker("submit", "--dry-run", "--gpus", "2", "--", "true").stdout
    assert said.startswith("It would wait: Needs 2 of the 4 GPUs")
    assert "  --gpus 1" in said
    assert stoker.json("submit", "--dry-run", "--gpus", "2", "--", "true")["starts"] is None
    assert "can never be given" in stoker("submit", "--dry-run", "-g", "9", "x", code=2).stderr
    assert len(stoker.json("ls", "-a")) == len(before) + 1


# ---- arrays


def test_the_life_of_an_array(stoker: Stoker) -> None:
    fill(stoker, 2)
    flag = stoker.work / "go"
    line = f"while [ ! -e {flag} ]; do sleep 0.05; done; echo $STOKER_TASK_ID/$STOKER_ARRAY_INDEX"
    said = stoker("submit", "-g", "1", "-n", "sweep", "--array", "0-9%4", "-c", line).stdout
    id = said.split()[1]
    assert f"Task {id} submitted: an array of 10; " in said
    until(lambda: stoker.task(id)["array"]["live"] == 2)
    listed = stoker("ls").stdout
    assert re.search(rf"^{id} +queued .* \[0/10 done, 2 running\] sweep$", listed, re.MULTILINE)
    assert ids(stoker.json("ls", id)) == [f"{id}_0", f"{id}_1"]
    elements = stoker("ls", id).stdout
    assert f"Array {id} (sweep): 0/10 done, 2 running." in elements
    assert "8 wait together" in elements
    assert f"{id}_1" in ids(stoker.json("ls", "--elements"))
    assert f"{id}_1" not in ids(stoker.json("ls"))

    assert f"Task {id}_7: cancelled." in stoker("cancel", f"{id}_7").stdout
    assert "[1/10 done, 2 running, 1 cancelled]" in stoker("ls").stdout
    assert "waits: Needs 1 of the 4 GPUs" in stoker("why", f"{id}_3").stdout
    assert "waits: Needs 1 of the 4 GPUs" in stoker("why", id).stdout
    assert f"stoker logs {id}_0" in stoker("logs", id, code=2).stderr
    assert "not started" in stoker("logs", f"{id}_3", code=2).stderr
    assert f"Task {id}_4: held." in stoker("hold", f"{id}_4").stdout
    assert "part of an array" in stoker("move", f"{id}_4", "--first", code=2).stderr

    flag.touch()
    until(lambda: stoker.task(id)["array"]["succeeded"] == 8)
    assert stoker.output(f"{id}_5") == f"{id}/5\n".encode()
    assert "1/10 done" not in stoker("show", id).stdout
    stoker("release", f"{id}_4")
    assert "elements did not succeed" in stoker("wait", id, code=1).stdout
    assert stoker.task(id)["outcome"] == "failed"
    assert stoker.task(id)["array"]["succeeded"] == 9


def test_cancelling_a_whole_array(stoker: Stoker) -> None:
    id = stoker.submit("-g", "1", "--array", "0-999%3", "--", "sleep", "600")
    until(lambda: stoker.task(id)["array"]["live"] == 3)
    assert "At most 3 of its elements run at the same time; 3 do now." in stoker("why", id).stdout
    stoker("cancel", id)
    stoker("wait", id, code=1)
    task = stoker.task(id)
    assert (task["outcome"], task["array"]["cancelled"]) == ("cancelled", 1000)
    assert stoker.json("nodes")[0]["cards"][0]["task"] is None


# ---- dependencies


def test_a_chain_with_a_failure(stoker: Stoker) -> None:
    first = stoker.submit("--hold", "-c", "exit 3")
    second = stoker.submit("-n", "second", "--after", f"{first}:ok", "--", "true")
    third = stoker.submit("--after", second, "--", "true")
    instead = stoker.submit("--after", f"{first}:notok", "--", "true")
    assert f"Task {first} has to succeed first." in stoker("show", second).stdout
    stoker("release", first)
    stoker("wait", first, code=1)
    stoker("wait", instead)
    said = stoker("why", second).stdout
    assert "waits: Task" in said
    assert "which can no longer come true (failed)." in said
    assert f"stoker release --anyway {second}" in said
    assert "is not held" in stoker("release", second, code=2).stderr
    assert f"Task {second}: queued." in stoker("release", "--anyway", second).stdout
    stoker("wait", second, third)
    assert "let run by" in stoker("show", second).stdout


def test_a_predecessor_is_run_again(stoker: Stoker) -> None:
    first = stoker.submit("-c", "exit 3")
    stoker("wait", first, code=1)
    second = stoker.submit("--after", f"{first}:ok", "--", "true")
    made = stoker("edit", first, "-c", "exit 0").stdout
    assert re.match(rf"New task \d+ made from {first}:\n  command  exit 3  →  exit 0\n", made)
    new = made.split()[2]
    assert stoker.task(new)["origin"] == first
    assert f"task {first}" in stoker("show", new).stdout
    stoker("wait", new, second)
    assert stoker.task(second)["spec"]["after"] == [f"{new}:ok"]


def test_deleting_asks_and_takes_exactly_what_it_shows(stoker: Stoker) -> None:
    first = stoker.submit("--hold", "-n", "first", "--", "true")
    second = stoker.submit("-n", "second", "--after", f"{first}:ok", "--", "true")
    third = stoker.submit("-n", "third", "--after", second, "--", "true")
    other = stoker.submit("--hold", "--", "true")
    assert "add --yes" in stoker("delete", first, code=2).stderr
    code, said = on_a_terminal(stoker, "n\n", "delete", "--with-successors", first)
    assert code == 130
    assert f"{first}  first  (held)" in said
    assert said.index("second") < said.index("third")
    code, said = on_a_terminal(stoker, "n\n", "delete", first)
    assert "wait in vain" in said
    assert {first, second, third} <= set(ids(stoker.json("ls")))
    done = stoker("delete", "--with-successors", "--yes", first, second).stdout
    assert done == f"Deleted: {first}, {second}, {third}\n"
    assert "There is no task" in stoker("show", third, code=2).stderr
    assert stoker.json("delete", "--yes", other) == {"deleted": [other]}
    running = fill(stoker, 1)
    assert "has not ended yet" in stoker("delete", "--yes", running, code=2).stderr


def test_deleting_only_the_predecessor(stoker: Stoker) -> None:
    first = stoker.submit("--hold", "--", "true")
    any_end = stoker.submit("--after", first, "--", "true")
    success = stoker.submit("--after", f"{first}:ok", "--", "true")
    code, said = on_a_terminal(stoker, "y\n", "delete", first)
    assert code == 0
    assert said.endswith(f"Deleted: {first}\n")
    stoker("wait", any_end)
    assert "it was deleted" in stoker("why", success).stdout
    stoker("release", "--anyway", success)
    stoker("wait", success)


# ---- the line


def test_edit_while_it_waits(stoker: Stoker) -> None:
    fill(stoker)
    id = stoker.submit("-g", "4", "-n", "a", "-e", "SEED=1", "--", "sh", "-c", "echo $SEED $NEW")
    said = stoker("edit", id, "-n", "b", "-e", "NEW=2", "-t", "2h", "-g", "1").stdout.splitlines()
    assert said[0] == f"Task {id} changed:"
    assert [line.split() for line in said[1:]] == [
        ["--name", "a", "→", "b"],
        ["--env", "SEED", "→", "SEED,", "NEW"],
        ["--gpus", "4", "→", "1"],
        ["--time-limit", "-", "→", "2h"],
    ]
    spec = stoker.task(id)["spec"]
    assert (spec["name"], spec["env"], spec["gpus"]) == ("b", {"SEED": "1", "NEW": "2"}, 1)
    assert f"Task {id} is so already." in stoker("edit", id, "-g", "1").stdout
    stoker("edit", id, "--unset", "time-limit", "--unset", "env.NEW")
    assert stoker.task(id)["spec"]["time_limit_s"] is None
    assert "can never be given" in stoker("edit", id, "-g", "9", code=2).stderr
    assert "Did you mean `time-limit`?" in stoker("edit", id, "--unset", "tim-limit", code=2).stderr
    assert "stoker hold" in stoker("edit", id, "--hold", code=2).stderr
    assert "changed by" in stoker("show", id).stdout
    stoker("edit", id, "--unset", "gpus", "--", "echo", "other words")
    stoker("wait", id)
    assert stoker.output(id) == b"other words\n"


def test_move(stoker: Stoker) -> None:
    holder = fill(stoker)
    first, second, third = (stoker.submit("-g", "4", "--", "true") for _ in range(3))

    def line() -> list[str]:
        return ids(stoker.json("ls", "-s", "waiting"))

    assert f"Task {third} is the first in line." in stoker("move", third, "--first").stdout
    assert line() == [third, first, second]
    assert f"right after task {second}" in stoker("move", third, "--after", second).stdout
    stoker("move", second, "--before", first)
    assert line() == [second, first, third]
    assert "2 before it" in stoker("why", third).stdout
    assert "does not wait in line" in stoker("move", holder, "--last", code=2).stderr
    stoker("cancel", holder)
    stoker("wait", first, second, third)
    # `first` was the first when cards were kept for it, and keeps them
    started = [stoker.task(id)["started_at"] for id in (first, second, third)]
    assert started == sorted(started)


def test_resubmit_and_requeue(stoker: Stoker) -> None:
    id = fill(stoker, 4)
    assert "It waits in line again" in stoker("requeue", id).stdout
    until(lambda: stoker.task(id)["attempts"] == 2)
    until(lambda: stoker.task(id)["state"] == "RUNNING")
    assert "back in the line" in stoker("show", id).stdout
    said = stoker("resubmit", id).stdout
    new = said.split()[1]
    assert said == f"Task {new} submitted, the same as {id}.\n"
    assert stoker.task(new)["state"] == "QUEUED"
    assert "does not run" in stoker("requeue", new, code=2).stderr
    mixed = stoker("resubmit", new, "999999", code=2)
    assert "999999: There is no task 999999." in mixed.stderr
    assert len(stoker.json("ls", "-s", "waiting")) == 2


def test_retries(stoker: Stoker) -> None:
    id = stoker.submit("--retries", "1", "-c", "exit 3")
    until(lambda: any(e["event"] == "Requeued" for e in stoker.json("show", id)["events"]))
    shown = stoker("show", id).stdout
    assert "back in the line; tries again at" in shown
    assert "it tries again at" in shown


def test_start_after(stoker: Stoker) -> None:
    id = stoker.submit("--start-after", "2h", "--", "true")
    said = stoker("why", id).stdout
    assert re.match(rf"Task {id} \(true\) waits: It starts at \S+ \S+ at the earliest\.", said)
    assert "That is its start time." in said
    refused = stoker("submit", "--start-after", "some day", "--", "true", code=2).stderr
    assert "start_after: `some day` is not a time." in refused


# ---- cards and nodes


def test_sharing_a_card(stoker: Stoker) -> None:
    options = ["-g", "1", "--mode", "shared", "--gpu-memory", "8G"]
    first, second = (stoker.submit(*options, "--", "sleep", "600") for _ in range(2))
    until(lambda: {stoker.task(id)["state"] for id in (first, second)} == {"RUNNING"})
    assert stoker.task(first)["gpu_ids"] == stoker.task(second)["gpu_ids"]
    assert f"{first}, {second}" in stoker("nodes").stdout


def test_a_card_is_kept_for_a_large_task(stoker: Stoker) -> None:
    fill(stoker, 3)
    big = stoker.submit("-g", "4", "--", "true")
    until(lambda: stoker.json("nodes")[0]["cards"][3]["kept_for"] == big)
    assert f"GPU 3: kept for task {big} since " in stoker("nodes").stdout
    small = stoker.submit("-g", "1", "--", "true")
    assert f"is kept for task {big}" in stoker("why", small).stdout


def test_drain_and_resume(stoker: Stoker) -> None:
    name = stoker.json("nodes")[0]["name"]
    assert "takes no new tasks" in stoker("drain", name, "--why", "new driver").stdout
    id = stoker.submit("--", "true")
    assert f"{name} takes no new tasks: new driver." in stoker("why", id).stdout
    assert "takes no new tasks: new driver" in stoker("nodes").stdout
    assert stoker.json("nodes")[0]["drained"] == "new driver"
    stoker("down")
    stoker.up()
    assert stoker.json("nodes")[0]["drained"] == "new driver"
    assert f"{name} takes tasks again." in stoker("resume", name).stdout
    stoker("wait", id)
    assert "There is no node nowhere" in stoker("drain", "nowhere", code=2).stderr


# ---- more time, and whose turn it is


def test_a_running_task_is_given_more_time(stoker: Stoker) -> None:
    id = fill(stoker, 1, "--time-limit", "90m")

    assert stoker("extend", id, "+30m").stdout.startswith(
        f"Task {id} may run for 2 h in all, until "
    )
    assert stoker.task(id)["spec"]["time_limit_s"] == 7200
    shown = stoker("show", id).stdout
    assert f"longer: stoker extend {id} +2h" in shown
    assert "given a time limit of 2 h by" in shown
    assert "left]" not in stoker("ls").stdout
    stoker("extend", id, "3d")
    assert stoker("extend", id, "none").stdout == f"Task {id} has no time limit any more.\n"
    refused = stoker("extend", id, "+1h", code=2).stderr
    assert "has no time limit" in refused
    assert stoker("extend", id, "soon", code=2).stderr.startswith("stoker: limit: `soon` is not")


def test_share_says_where_one_stands(stoker: Stoker) -> None:
    fill(stoker, 4)
    stoker.submit("--gpus", "1", "--", "true")

    said = stoker("share").stdout.splitlines()

    assert said[1:] == ["You hold 4 GPUs at weight 1.", "You are next."]
    assert stoker.json("share")["place"] == 1
