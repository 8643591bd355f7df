"""The examples of the READMEs, the tutorial and the Python page, run as a reader would run them.

A `console` block is a line that begins with `$ ` and what it prints; `...` stands for anything, and
blanks do not count. A block behind "Write `NAME`:" is that file. On a page of programs the `python`
blocks are one session, and a `text` block behind one is what it prints. Each document has a server
of its own.
"""

from __future__ import annotations

import doctest
import json
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
PROGRAMS = {"docs/howto/python.md": "C.UTF-8"}
SHOWN = {"submit", "ls", "show", "why", "edit", "wait", "logs", "nodes", "cancel", "down"}
"""Commands that the READMEs must show."""
PATIENCE_S = 60.0
END = "@@end@@"


class Example(NamedTuple):
    command: str
    output: str


class File(NamedTuple):
    name: str
    text: str


_BLOCK = re.compile(
    r"(?:`(?P<file>[\w.]+)`[:：]\n\n)?^```(?P<kind>\w+)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
SESSION = """
import contextlib, io, json, sys
space = {"__name__": "__main__"}
printed = []
for number, text in enumerate(json.load(open("blocks.json", encoding="utf-8"))):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile(text, f"block {number}", "exec"), space)
    printed.append(out.getvalue())
json.dump(printed, open("printed.json", "w", encoding="utf-8"))
"""


def steps(document: str) -> Iterator[Example | File]:
    """What a reader does, in the order of the page."""
    for block in _blocks(document):
        if block["file"]:
            yield File(block["file"], block["text"])
        if block["kind"] != "console":
            continue
        for piece in re.split(r"^\$ ", block["text"], flags=re.MULTILINE)[1:]:
            command, _, output = piece.partition("\n")
            yield Example(command, output)


def examples(document: str) -> list[Example]:
    return [step for step in steps(document) if isinstance(step, Example)]


def programs(document: str) -> list[Example]:
    """Every `python` block with the `text` block behind it."""
    found: list[Example] = []
    for block in _blocks(document):
        if block["kind"] == "python":
            found.append(Example(block["text"], ""))
        elif block["kind"] == "text":
            found[-1] = found[-1]._replace(output=block["text"])
    return found


def _blocks(document: str) -> Iterator[re.Match[str]]:
    return _BLOCK.finditer((ROOT / document).read_text(encoding="utf-8"))


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
        "LANG": (DOCUMENTS | PROGRAMS)[request.getfixturevalue("document")],
        "STOKER_HOME": str(tmp_path / "state"),
        "STOKER_ONE_PERSON": "1",  # as for a plain user, whoever runs the tests
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
def test_examples_print_what_the_page_shows(document: str, shell: Shell, tmp_path: Path) -> None:
    for step in steps(document):
        if isinstance(step, File):
            (tmp_path / step.name).write_text(step.text)
            continue
        code, output = shell.run(step.command)

        assert code == 0, f"{step.command}\n{output}"
        check(step, output)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("document", PROGRAMS)
def test_programs_print_what_stands_below_them(document: str, shell: Shell, tmp_path: Path) -> None:
    blocks = programs(document)
    (tmp_path / "session.py").write_text(SESSION)
    (tmp_path / "blocks.json").write_text(json.dumps([block.command for block in blocks]))

    code, output = shell.run(".venv/bin/python session.py")

    assert code == 0, output
    printed = json.loads((tmp_path / "printed.json").read_text())
    for block, text in zip(blocks, printed, strict=True):
        check(block, text)


def check(example: Example, output: str) -> None:
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    shown = f"{example.command}\nshown:\n{example.output}\nprinted:\n{output}"
    assert doctest.OutputChecker().check_output(example.output, output, flags), shown


@pytest.mark.parametrize("document", ["README.md", "README.zh.md"])
def test_the_readme_shows_the_everyday_commands(document: str) -> None:
    commands = "\n".join(example.command for example in examples(document))

    assert set(re.findall(r"stoker (\w+)", commands)) >= SHOWN
