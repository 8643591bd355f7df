"""The examples of the READMEs and the tutorial, run as a reader would run them.

A `console` block is a line that begins with `$ ` and what it prints; `...` stands for anything, and
blanks do not count. Each document is one shell session, with a server of its own.
"""

from __future__ import annotations

import doctest
import os
import re
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
DOCUMENTS = {
    "README.md": "C.UTF-8",
    "README.zh.md": "zh_CN.UTF-8",
    "docs/tutorial/first-task.md": "C.UTF-8",
    "docs/tutorial/first-task.zh.md": "zh_CN.UTF-8",
}
SHOWN = {"submit", "ls", "show", "why", "edit", "wait", "logs", "nodes", "cancel", "down"}
"""Commands that the READMEs must show."""
PATIENCE_S = 60.0
END = "@@end@@"


class Example(NamedTuple):
    command: str
    output: str


def examples(document: str) -> list[Example]:
    text = (ROOT / document).read_text(encoding="utf-8")
    found = []
    for block in re.findall(r"^```console\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        for piece in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = piece.partition("\n")
            found.append(Example(command, output))
    return found


class Shell:
    """One bash, so that what a line sets is there for the next."""

    def __init__(self, folder: Path, environ: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            ["bash", "--norc", "--noprofile"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env=environ,
        )

    def run(self, command: str) -> tuple[int, str]:
        """Exit code and output of one line."""
        assert self._process.stdin is not None
        line = f"{{ {command}\n}} < /dev/null\nprintf '\\n%s%s\\n' {END} $?\n"
        self._process.stdin.write(line.encode())
        self._process.stdin.flush()
        output = self._read()
        text, _, code = output.rpartition(f"\n{END}")
        return int(code), text

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(PATIENCE_S)
        self._process.stdout.close()

    def _read(self) -> str:
        assert self._process.stdout is not None
        fd, deadline, seen = self._process.stdout.fileno(), time.monotonic() + PATIENCE_S, b""
        while not re.search(rf"\n{END}\d+\n\Z".encode(), seen):
            ready, _, _ = select.select([fd], [], [], max(0, deadline - time.monotonic()))
            piece = os.read(fd, 65536) if ready else b""
            if not piece:
                pytest.fail(f"no end of the output: {seen.decode(errors='replace')}")
            seen += piece
        return seen.decode()


@pytest.fixture
def shell(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Shell]:
    """A shell in a folder that looks like a clone after `make up`, and a server that serves."""
    (tmp_path / ".venv").symlink_to(Path(sys.executable).parent.parent)
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "LANG": DOCUMENTS[request.getfixturevalue("document")],
        "STOKER_HOME": str(tmp_path / "state"),
        "STOKER_LISTEN": "127.0.0.1:0",
        "STOKER_NODE_NAME": "lab1",
        "STOKER_SIMULATE_GPUS": "4",
    }
    shell = Shell(tmp_path, environ)
    try:
        code, output = shell.run(".venv/bin/stoker up --detach")
        assert code == 0, output
        yield shell
    finally:
        code, output = shell.run(".venv/bin/stoker down --stop-tasks --yes")
        shell.close()
    assert code == 0, output
    shutil.rmtree(tmp_path / "state")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("document", DOCUMENTS)
def test_examples_print_what_the_page_shows(document: str, shell: Shell) -> None:
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    checker = doctest.OutputChecker()

    for example in examples(document):
        code, output = shell.run(example.command)

        assert code == 0, f"{example.command}\n{output}"
        shown = f"$ {example.command}\nshown:\n{example.output}\nprinted:\n{output}"
        assert checker.check_output(example.output, output, flags), shown


@pytest.mark.parametrize("document", ["README.md", "README.zh.md"])
def test_the_readme_shows_the_everyday_commands(document: str) -> None:
    commands = "\n".join(example.command for example in examples(document))

    assert set(re.findall(r"stoker (\w+)", commands)) >= SHOWN
