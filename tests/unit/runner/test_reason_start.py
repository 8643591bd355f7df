"""Why a part never came to exec: error numbers in, reasons out."""

from __future__ import annotations

import dataclasses
import errno
import os
from pathlib import Path

import pytest

from stoker.domain.outcome import OUTCOME_OF
from stoker.runner import program
from stoker.runner.protocol import Incarnation, Launch
from stoker.runner.reason import REASONS, explain_start

LAUNCH = Launch(
    attempt="a1",
    rank=0,
    epoch=1,
    number=1,
    incarnation=Incarnation("boot", "spool"),
    task="17",
    node="node-a",
    workdir="/home/ana/project",
    argv=["python", "train.py"],
    stdout="+out.txt",
    stderr="/var/err.txt",
    account="ana",
)


def failed(number: int, filename: str | None = None) -> OSError:
    return OSError(number, os.strerror(number), filename)


def with_argv(*argv: str) -> Launch:
    return dataclasses.replace(LAUNCH, argv=list(argv))


@pytest.mark.parametrize(
    ("step", "number", "expected"),
    [
        ("workdir", errno.ENOENT, ("folder_missing", "/home/ana/project")),
        ("workdir", errno.ENOTDIR, ("folder_missing", "/home/ana/project")),
        ("workdir", errno.EACCES, ("folder_denied", "/home/ana/project: Permission denied")),
        ("workdir", errno.ESTALE, ("folder_denied", "/home/ana/project: Stale file handle")),
        ("stdout", errno.EACCES, ("stdout_not_writable", "out.txt: Permission denied")),
        ("stdout", errno.EISDIR, ("stdout_not_writable", "out.txt: Is a directory")),
        ("stdout", errno.ENOSPC, ("disk_full", "out.txt")),
        ("stdout", errno.EDQUOT, ("disk_quota", "out.txt")),
        (
            "stderr",
            errno.ENOENT,
            ("stderr_not_writable", "/var/err.txt: No such file or directory"),
        ),
        ("account", errno.ENOENT, ("account_unknown", "ana")),
        ("account", errno.EPERM, ("permission_denied", "ana")),
        ("account", errno.EAGAIN, ("start_failed", "ana: Resource temporarily unavailable")),
        ("cgroup", errno.EINVAL, ("start_failed", "cgroup: Invalid argument")),
        ("fork", errno.EAGAIN, ("start_failed", "fork: Resource temporarily unavailable")),
        ("exec", errno.ENOENT, ("command_not_found", "python")),
        ("exec", errno.EACCES, ("not_executable", "python")),
        ("exec", errno.EPERM, ("permission_denied", "python")),
        ("exec", errno.ENOEXEC, ("no_interpreter_line", "python")),
        ("exec", errno.E2BIG, ("argument_list_too_long", "")),
        ("exec", errno.ENOMEM, ("host_memory", "")),
        ("exec", errno.ETXTBSY, ("start_failed", "python: Text file busy")),
    ],
)
def test_each_step_has_its_reasons(step: str, number: int, expected: tuple[str, str]) -> None:
    assert explain_start(step, failed(number), LAUNCH) == expected


@pytest.mark.parametrize(
    "word",
    [
        "python train.py",
        "cd /data && python train.py",
        "cat a|wc",
        "echo hi>log",
        "sleep 1;true",
        "$HOME/run.sh",
        "CUDA_VISIBLE_DEVICES=0",
        "~/run.sh",
        "cd",
        "source",
        "`which python`",
    ],
)
def test_shell_words_as_a_program_want_the_shell(word: str) -> None:
    assert explain_start("exec", failed(errno.ENOENT), with_argv(word, "x")) == ("use_shell", word)


@pytest.mark.parametrize("word", ["pyhton", "./run.sh", "/opt/a-b_c+d/bin/x.1", "训练", "nvcc"])
def test_a_plain_missing_word_is_a_missing_command(word: str) -> None:
    found = explain_start("exec", failed(errno.ENOENT), with_argv(word))
    assert found == ("command_not_found", word)


def test_a_whole_script_as_one_word_wants_the_shell() -> None:
    word = "set -e\npython train.py --lr 0.1\n" * 20
    assert explain_start("exec", failed(errno.ENAMETOOLONG), with_argv(word))[0] == "use_shell"


def test_a_missing_shell_is_named_and_never_told_to_use_the_shell() -> None:
    launch = dataclasses.replace(LAUNCH, argv=[], shell="cd /x && ls")
    found = explain_start("exec", failed(errno.ENOENT, "/usr/bin/fish"), launch)
    assert found == ("command_not_found", "/usr/bin/fish")


@pytest.mark.parametrize(
    ("number", "head", "expected"),
    [
        (errno.ENOENT, b"#!/bin/bash\r\necho\r\n", ("windows_line_ends", "/bin/bash")),
        (errno.ENOENT, b"#! /usr/bin/env python3 -u\r\n", ("windows_line_ends", "/usr/bin/env")),
        (errno.ENOENT, b"#!/opt/py/bin/python\nimport x", ("interpreter_missing", "/opt/py/bin/python")),
        (errno.ENOENT, b"\x7fELF\x02\x01", ("command_not_found", "./run.sh")),
        (errno.ENOEXEC, b"echo hello\n", ("no_interpreter_line", "./run.sh")),
        (errno.ENOEXEC, b"", ("no_interpreter_line", "./run.sh")),
        (errno.ENOEXEC, b"\x7fELF\x02\x01", ("start_failed", "./run.sh: Exec format error")),
    ],
)  # fmt: skip
def test_the_head_of_the_program_tells_more(
    number: int, head: bytes, expected: tuple[str, str]
) -> None:
    assert explain_start("exec", failed(number), with_argv("./run.sh"), head) == expected


def test_real_scripts_that_exec_refuses(tmp_path: Path) -> None:
    """What the kernel says about them, and what we make of it."""
    scripts = {
        "crlf": (b"#!/bin/sh\r\necho\r\n", 0o755, ("windows_line_ends", "/bin/sh")),
        "gone": (b"#!/nowhere/python\n", 0o755, ("interpreter_missing", "/nowhere/python")),
        "bare": (b"echo hello\n", 0o755, ("no_interpreter_line", None)),
        "nox": (b"#!/bin/sh\n", 0o644, ("not_executable", None)),
        "none": (None, 0, ("command_not_found", None)),
    }
    for name, (content, mode, (reason, detail)) in scripts.items():
        path = str(tmp_path / name)
        if content is not None:
            Path(path).write_bytes(content)
            os.chmod(path, mode)
        with pytest.raises(OSError) as refused:  # noqa: PT011 - the number is what is looked at
            os.execv(path, [path])
        found = explain_start("exec", refused.value, with_argv(path), program.head(path, ""))
        assert found == (reason, detail or path), name


def test_the_head_is_looked_for_along_the_path(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
    (tmp_path / "two" / "tool").write_bytes(b"#!/x\n" + b"y" * 1000)
    path = f"{tmp_path}/none:{tmp_path}/one:{tmp_path}/two"
    head = program.head("tool", path)
    assert head is not None
    assert head.startswith(b"#!/x\n")
    assert len(head) == 256
    assert program.head("nothing", path) is None
    assert program.head("a\0b", path) is None


def test_a_pipe_or_folder_in_the_place_of_a_program_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert program.head(str(tmp_path / "pipe"), "") is None
    assert program.head(str(tmp_path), "") is None


def test_every_reason_is_a_failure_that_the_domain_knows() -> None:
    assert len(set(REASONS)) == len(REASONS)
    assert {OUTCOME_OF.get(reason) for reason in REASONS} == {"failed"}
