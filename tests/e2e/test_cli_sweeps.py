"""Sweeps through the real command line: real processes say with what they were started."""

from __future__ import annotations

import re

from .conftest import Stoker, until

SAY = 'import os, sys; print(sys.argv[1:], os.environ["STOKER_ARRAY_INDEX"])'


def test_a_sweep_from_preview_to_retry(stoker: Stoker) -> None:
    flag = stoker.work / "mended"
    line = f"echo lr={{lr}} seed={{seed}} i=$STOKER_ARRAY_INDEX; test {{seed}} != 3 -o -e {flag}"
    sweep = ("--name", "train", "--sweep", "lr=1e-3,1e-4", "--sweep", "seed=0..4")

    before = len(stoker.json("ls", "-a"))
    said = stoker("submit", "--dry-run", *sweep, "-c", line).stdout.splitlines()
    assert said[0] == "It would be 10 elements (lr x 2, seed x 5):"
    assert said[1].startswith("  _0  echo lr=1e-3 seed=0 ")
    assert said[4:6] == ["  ... 6 more ...", said[1].replace("_0", "_9").replace(
        "1e-3 seed=0", "1e-4 seed=4").replace("test 0", "test 4")]  # fmt: skip
    assert said[6].startswith("It would start now on ")
    assert len(stoker.json("ls", "-a")) == before

    said = stoker("submit", *sweep, "-c", line).stdout
    id = said.split()[1]
    assert f"Task {id} submitted: 10 elements (lr x 2, seed x 5); " in said
    stoker("wait", id, code=1)
    assert stoker.output(f"{id}_7") == b"lr=1e-4 seed=2 i=7\n"
    assert re.search(rf"^{id} +failed .* \[10/10 done, 2 failed\] train$", stoker("ls", "-a").stdout, re.M)  # fmt: skip
    assert "train lr=1e-4 seed=2\n" in stoker("ls", id).stdout
    assert stoker.json("ls", id)[7]["sweep"] == {"lr": "1e-4", "seed": "2"}
    first = stoker("show", f"{id}_3").stdout
    assert first.startswith(f"Task {id}_3: train lr=1e-3 seed=3\n")
    assert "echo lr=1e-3 seed=3 i=$STOKER_ARRAY_INDEX" in first
    shown = stoker("show", id).stdout
    assert re.search(rf"Did not succeed\n  {id}_3  failed  lr=1e-3 seed=3  It ended", shown)
    assert f"Run these again: stoker resubmit {id} --failed" in shown
    in_chinese = stoker("show", id, env={"LANG": "zh_CN.UTF-8"}).stdout
    assert "运行错误 2" in in_chinese
    assert f"重新提交这些：stoker resubmit {id} --failed" in in_chinese

    flag.touch()
    said = stoker("resubmit", id, "--failed").stdout
    new = said.split()[1]
    assert said == f"Task {new} submitted: the 2 elements of {id} that failed.\n"
    stoker("wait", new)
    assert [task["id"] for task in stoker.json("ls", new)] == [f"{new}_3", f"{new}_8"]
    assert stoker.output(f"{new}_8") == b"lr=1e-4 seed=3 i=8\n"
    assert stoker.task(new)["origin"] == id
    assert "None of the elements" in stoker("resubmit", new, "--failed", code=2).stderr

    one = stoker.json("resubmit", f"{id}_8")[0]["id"]
    stoker("wait", one)
    assert stoker.output(f"{one}_8") == b"lr=1e-4 seed=3 i=8\n"


def test_values_arrive_exactly(stoker: Stoker) -> None:
    nasty = ["it's", 'a "b" $(c) `d`', "x,y\\", "炉 {seed} {q}", "-1..1", "--"]
    typed = [
        value.replace("\\", "\\\\").replace(",", "\\,").replace("..", "\\..") for value in nasty
    ]
    exact = stoker.submit(
        "--sweep", f"q={','.join(typed)}", "--", "python3", "-c", SAY, "{q}", "={q}"
    )
    line = stoker.submit(
        "--sweep", f"q={','.join(typed)}", "-c", f"python3 -c '{SAY}' {{q}} \"{{q}}\" '{{q}}' ${{q}}"
    )  # fmt: skip
    stoker("wait", exact, line)
    for index, value in enumerate(nasty):
        told = f"{[value, f'={value}']!r} {index}\n"
        assert stoker.output(f"{exact}_{index}").decode() == told
        told = f"{[value] * 3!r} {index}\n"
        assert stoker.output(f"{line}_{index}").decode() == told


def test_a_script_with_a_sweep_and_files_of_its_own(stoker: Stoker) -> None:
    script = stoker.work / "train.sh"
    script.write_text(
        "#!/bin/sh\n#STOKER --sweep lr=1,2 --sweep seed=7,8 --stdout out-{lr}-{seed}.txt\n"
        'echo "{lr} $STOKER_SWEEP_seed $LR"\n'
    )
    id = stoker.submit("--sweep", "seed=9", "--env", "LR=lr{lr}", "train.sh")
    stoker("wait", id)
    for lr in "12":
        assert f"{lr} 9 lr{lr}\n" in (stoker.work / f"out-{lr}-9.txt").read_text()
    assert len(list(stoker.work.glob("out-*.txt"))) == 2


def test_elements_are_cancelled_one_by_one_or_all(stoker: Stoker) -> None:
    id = stoker.submit("-g", "1", "--sweep", "s=1..50", "--array", "%2", "--", "sleep", "{s}00")
    until(lambda: stoker.task(id)["array"]["live"] == 2)
    assert f"Task {id}_9: cancelled." in stoker("cancel", f"{id}_9").stdout
    assert "s=10: sleep 1000" in stoker("show", f"{id}_9").stdout
    assert "still wait or run" in stoker("resubmit", id, "--failed", code=2).stderr
    listed = stoker("ls", env={"COLUMNS": "80"}).stdout
    assert "[1/50 done, 2 running, 1 cancelled] sleep {s}00" in listed
    listed = stoker("ls", env={"LANG": "zh_CN.UTF-8"}).stdout
    assert "[已结束 1/50, 运行中 2, 已中止 1] sleep {s}00" in listed
    stoker("cancel", id)
    stoker("wait", id, code=1)
    assert stoker.task(id)["array"]["cancelled"] == 50


def test_what_is_refused_says_which_name(stoker: Stoker) -> None:
    for typed, told in (
        (["--sweep", "lr=1", "--", "x", "{l}"], "sweep.lr: nothing uses {lr}"),
        (["--sweep", "lr=1", "--sweep", "lr=2", "--", "x", "{lr}"], "sweep: lr is given twice."),
        (["--sweep", "lr=1,,2", "--", "x", "{lr}"], "sweep.lr: a value is missing."),
        (["--sweep", "1r=1", "--", "x"], "`1r` cannot be the name"),
        (["--sweep", "lr", "--", "x"], "`lr` is not NAME=A,B,..."),
        (["--sweep", "n=4..1", "--", "x", "{n}"], "`4..1` has no values"),
        (["--sweep", "n=1,2", "--array", "0-2", "--", "x", "{n}"], "no combination 2"),
        (["--sweep", "n=a b", "-c", "x `{n}`"], '"$STOKER_SWEEP_n"'),
    ):
        assert told in stoker("submit", *typed, code=2).stderr, typed


def test_elements_after_a_restart_of_the_server(stoker: Stoker) -> None:
    flag = stoker.work / "go"
    line = f"while [ ! -e {flag} ]; do sleep 0.05; done; echo {{a}}{{b}}"
    id = stoker.submit("-g", "2", "--sweep", "a=x,y", "--sweep", "b=1,2", "-c", line)
    until(lambda: stoker.task(id)["array"]["live"] == 2)
    stoker.kill_server()
    stoker.up()
    flag.touch()
    stoker("wait", id)
    told = [stoker.output(f"{id}_{index}") for index in range(4)]
    assert told == [b"x1\n", b"x2\n", b"y1\n", b"y2\n"]
