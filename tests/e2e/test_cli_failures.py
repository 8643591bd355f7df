"""A task that fails says why in one plain sentence: each of them by a task that really fails so."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from .conftest import Stoker

OOM = "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB"


def prepare(work: Path) -> None:
    (work / "no-bit.sh").write_text("#!/bin/sh\n")
    (work / "no-line").write_text("echo x\n")
    (work / "no-line").chmod(0o755)
    (work / "bad-line").write_text("#!/no/such/shell\n")
    (work / "bad-line").chmod(0o755)
    (work / "windows").write_bytes(b"#!/bin/sh\r\necho x\r\n")
    (work / "windows").chmod(0o755)
    (work / "module.py").write_text("import no_such_module_at_all\n")
    (work / "locked").mkdir(exist_ok=True)
    (work / "locked").chmod(0)


CASES: list[tuple[list[str], str, str]] = [
    (["--", "no-such-program"], "command_not_found", "`no-such-program` was not found"),
    (["-c", "no-such-program"], "command_not_found", "`no-such-program` was not found"),
    (["--", "cd x && python a.py"], "use_shell", "`cd x && python a.py` is not a program: use -c"),
    (["--", "cd", "/"], "use_shell", "use -c for shell words"),
    (["--", "./no-bit.sh"], "not_executable", "`./no-bit.sh` has no execute bit"),
    (["--", "./no-line"], "no_interpreter_line", "has no `#!` first line"),
    (["--", "./bad-line"], "interpreter_missing", "is not there: /no/such/shell"),
    (["--", "./windows"], "windows_line_ends", "Windows line ends"),
    (["--", "python3", "module.py"], "module_missing", "`no_such_module_at_all` is missing"),
    (["-w", "/no/such/folder", "--", "true"], "folder_missing", "/no/such/folder does not exist"),
    (["-o", "/no/such/folder/x", "--", "true"], "stdout_not_writable", "/no/such/folder/x: No such"),
    (["--stderr", "/no/such/x", "--", "true"], "stderr_not_writable", "error output cannot"),
    (["-c", "kill -9 $$"], "killed_by_signal", "(SIGKILL); often the machine ran out of memory"),
    (["-c", "kill -SEGV $$"], "killed_by_signal", "crashed (SIGSEGV)"),
    (["-c", f"echo '{OOM}' >&2; exit 1"], "gpu_memory", "CUDA out of memory): 2.50 GiB more"),
    (["-c", "echo x > /dev/full"], "disk_full", "A disk is full"),
    (["-c", "exit 3"], "exit_code", "exit code 3"),
]  # fmt: skip
if os.geteuid() != 0:  # nothing is closed to root
    CASES.append((["-w", "locked", "--", "true"], "folder_denied", "may not be entered"))


@pytest.fixture(scope="module")
def ended(stoker: Stoker) -> dict[str, dict[str, object]]:
    """All of them at once; what became of each, by the command."""
    prepare(stoker.work)
    ids = {str(args): stoker.submit(*args) for args, _, _ in CASES}
    tasks = {task["id"]: task for task in stoker.json("wait", *ids.values(), code=1)}
    return {args: tasks[id] for args, id in ids.items()}


@pytest.mark.parametrize(("args", "reason", "said"), CASES, ids=lambda value: str(value)[:40])
def test_it_says_why(
    ended: dict[str, dict[str, object]], args: list[str], reason: str, said: str
) -> None:
    task = ended[str(args)]
    assert (task["outcome"], task["reason"]) == ("failed", reason)
    assert said in str(task["message"])
    assert "?" not in str(task["message"])
    assert "\n" not in str(task["message"])


def test_show_and_chinese_say_it_too(stoker: Stoker, ended: dict[str, dict[str, object]]) -> None:
    id = str(ended[str(["--", "no-such-program"])]["id"])
    assert "was not found" in stoker("show", id).stdout
    assert "找不到程序 `no-such-program`" in stoker("show", id, env={"LANG": "zh_CN.UTF-8"}).stdout


def test_a_memory_limit(stoker: Stoker) -> None:
    """Where the node can enforce it; where it cannot, it says so (test_nodes)."""
    enforced = "memory" in stoker.json("nodes")[0]["limits"]
    code = "b = []\nwhile len(b) < 400: b.append(bytearray(1 << 20))"
    id = stoker.submit("-m", "100M", "--", "python3", "-c", code)
    stoker("wait", id, code=int(enforced))
    task = stoker.task(id)
    assert task["reason"] == ("memory_limit" if enforced else "exit_zero")
    if enforced:
        assert "100 MiB" in task["message"]
