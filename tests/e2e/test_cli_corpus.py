"""Odd strings, from the command line to a real process and back: every byte as it was typed.

The canary must not appear: nothing of this is ever read by a shell that was not asked for.
"""

from __future__ import annotations

import json
import shlex
import sys

import pytest

from .conftest import Stoker

CANARY = "canary-was-here"
CORPUS = [
    "", " ", "  two  spaces  ", "'", '"', "''", "\\", "\\\\'\"", "$HOME", "${HOME}", "~", "~root",
    f"$(touch {CANARY})", f"`touch {CANARY}`", f"; touch {CANARY}", f"| touch {CANARY}",
    f"&& touch {CANARY}", f"> {CANARY}", f"<(touch {CANARY})", "a\nb", "\n", "\r\n", "\t", "*", "?",
    "[a-z]*", "{a,b}", "!!", "#x", "-", "--", "-rf", "--gpus=9", "-c", "%s%n", "{id}", "{0}", "\\0",
    "训练模型", "日本語", "é", "é", "🚀", "\u202egnp.exe", "\u200f", "\ufeff", "\u2028", "\x1b[31m",
    "\x01\x7f", "\x80\x9b", "null", "true", "0", "1e5", "a=b", "=", "x" * 65536, "训" * 20000,
]  # fmt: skip
DUMP = (
    "import json, os, sys; json.dump([os.fsencode(a).hex() for a in sys.argv[1:]], open({!r}, 'w'))"
)


@pytest.fixture(autouse=True)
def _canary(stoker: Stoker) -> object:
    yield
    found = [path for path in stoker.folder.rglob("*") if CANARY in path.name]
    assert found == []


def run(stoker: Stoker, *args: str) -> str:
    id = stoker.submit(*args)
    stoker("wait", id)
    return id


def test_arguments(stoker: Stoker) -> None:
    place = stoker.work / "arguments.json"
    id = run(stoker, "--", sys.executable, "-c", DUMP.format(str(place)), *CORPUS)
    got = [bytes.fromhex(text).decode() for text in json.loads(place.read_text())]
    assert got == CORPUS
    assert stoker.task(id)["spec"]["command"][3:] == CORPUS


def test_a_shell_line(stoker: Stoker) -> None:
    """The line is the shell's, as it was typed; our own quoting must come out of it again."""
    texts = [text for text in CORPUS if len(text) < 1000]
    place = stoker.work / "line.json"
    line = shlex.join([sys.executable, "-c", DUMP.format(str(place)), *texts])
    run(stoker, "-c", line)
    assert [bytes.fromhex(text).decode() for text in json.loads(place.read_text())] == texts


def test_a_script(stoker: Stoker) -> None:
    texts = [text for text in CORPUS if len(text) < 1000]
    place = stoker.work / "script.json"
    line = shlex.join([sys.executable, "-c", DUMP.format(str(place)), *texts])
    (stoker.work / "odd.sh").write_text(f"#!/bin/bash\n{line}\n", newline="")
    run(stoker, "odd.sh")
    assert [bytes.fromhex(text).decode() for text in json.loads(place.read_text())] == texts


def test_environment(stoker: Stoker) -> None:
    place = stoker.work / "environment.json"
    code = (
        "import json, os; json.dump({k.hex(): v.hex() for k, v in os.environb.items()}, "
        f"open({str(place)!r}, 'w'))"
    )
    wanted = {f"ODD_{number}": text for number, text in enumerate(CORPUS)}
    wanted |= {"变量": "值", "with space": "x", "dash-ed": "$(x)"}
    given = [word for name, text in wanted.items() for word in ("-e", f"{name}={text}")]
    run(stoker, *given, "--", sys.executable, "-c", code)
    raw = json.loads(place.read_text())
    got = {bytes.fromhex(k).decode(): bytes.fromhex(v).decode() for k, v in raw.items()}
    assert {name: got.get(name) for name in wanted} == wanted


def test_names_and_notes(stoker: Stoker) -> None:
    texts = [text for text in CORPUS if len(text) <= 200]
    for text in texts[::6]:
        id = stoker.submit("--hold", f"--name={text}", f"--description={text}", "--", "true")
        spec = stoker.task(id)["spec"]
        assert (spec["name"], spec["description"]) == (text, text)
        stoker("cancel", id)
    listed = stoker("ls", "-a").stdout
    assert listed.isprintable() or all(line.isprintable() for line in listed.splitlines())


@pytest.mark.parametrize(
    "name", ["a b", "$(x)", "训练", "-rf", "a\nb", "`x`", "'\"", "{id}", "\u202ex"]
)
def test_folders_and_output_files(stoker: Stoker, name: str) -> None:
    folder = stoker.work / name
    folder.mkdir(exist_ok=True)
    run(stoker, "-w", str(folder), "-o", f"out {name}", "--", "pwd")
    assert (folder / f"out {name}").read_text() == f"{folder}\n"


@pytest.mark.parametrize(
    ("args", "field"),
    [
        (["--", "echo", "a\udcffb"], "command[1]"),
        (["-c", "echo \udcff"], "command"),
        (["-e", "A=\udcff", "--", "x"], "env.A"),
        (["-n", "\udcff", "--", "x"], "name"),
    ],
)
def test_what_is_no_text_is_refused_by_field(stoker: Stoker, args: list[str], field: str) -> None:
    assert f"stoker: {field}: " in stoker("submit", *args, code=2).stderr


def test_a_script_with_a_nul_is_refused(stoker: Stoker) -> None:
    (stoker.work / "nul.sh").write_bytes(b"#!/bin/sh\necho \0\n")
    assert "stoker: command: contains a NUL" in stoker("submit", "nul.sh", code=2).stderr
