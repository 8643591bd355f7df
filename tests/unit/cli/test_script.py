"""Script files: what they say, what is passed on, what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.cli.say import Refusal
from stoker.cli.script import Script, find_script, script_options


def write(path: Path, text: str | bytes, mode: int = 0o644) -> str:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    path.chmod(mode)
    return str(path)


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("", []),
        ("#STOKER --gpus 2", ["--gpus", "2"]),
        ("#!/bin/sh\n#STOKER -g 2\necho\n#STOKER -t 1h\n", ["-g", "2", "-t", "1h"]),
        ("#STOKER --name 'a b' # a note\n", ["--name", "a b"]),
        ("#STOKER\t-g 1\n", ["-g", "1"]),
        ("#STOKERS -g 1\n# STOKER -g 1\n #STOKER -g 1\necho '#STOKER -g 1'\n", []),
        ("#STOKER\n", []),
        ("#STOKER -g 2\r\necho\r\n", ["-g", "2"]),
        ("#STOKER --name 训练\n", ["--name", "训练"]),
    ],
)
def test_lines(text: str, options: list[str]) -> None:
    assert script_options(text) == options


def test_quotes_that_do_not_match_name_the_line() -> None:
    with pytest.raises(Refusal, match="line 2"):
        script_options("#!/bin/sh\n#STOKER --name 'a\n")


def test_a_text_file_is_a_script(tmp_path: Path) -> None:
    text = "#!/bin/bash\n#STOKER --gpus 2\npython train.py\n"
    path = write(tmp_path / "train.sh", text)
    assert find_script((path,)) == Script("train.sh", text, ["--gpus", "2"])


def test_what_is_no_script(tmp_path: Path) -> None:
    assert find_script(("python", "train.py")) is None
    assert find_script((str(tmp_path),)) is None
    assert find_script((write(tmp_path / "run", "#!/bin/sh\n", 0o755),)) is None
    assert find_script((write(tmp_path / "elf", b"\x7fELF\0\0", 0o644),)) is None


def test_options_in_an_executable_script_are_not_overlooked(tmp_path: Path) -> None:
    path = write(tmp_path / "run", "#!/bin/sh\n#STOKER -g 1\n", 0o755)
    found = find_script((path,))
    assert found is not None
    assert found.options == ["-g", "1"]


@pytest.mark.parametrize(
    ("text", "arguments", "command"),
    [
        ("#!/bin/bash\necho $1\n", ("a", "--lr=0.1"), "#!/bin/bash\nset -- a --lr=0.1\necho $1\n"),
        ("echo $1\n", ("a",), "set -- a\necho $1\n"),
        ("#!/usr/bin/env zsh\necho\n", ("a",), "#!/usr/bin/env zsh\nset -- a\necho\n"),
    ],
)
def test_plain_arguments_are_passed(
    tmp_path: Path, text: str, arguments: tuple[str, ...], command: str
) -> None:
    found = find_script((write(tmp_path / "s", text), *arguments))
    assert found is not None
    assert found.text == command


@pytest.mark.parametrize(
    ("text", "argument"),
    [
        ("#!/bin/bash\n", "a b"),
        ("#!/bin/bash\n", "$(rm x)"),
        ("#!/bin/bash\n", ""),
        ("#!/bin/bash\n", "训练"),
        ("#!/usr/bin/env python3\n", "a"),
        ("#!/usr/bin/fish\n", "a"),
        ("#!\n", "a"),
    ],
)
def test_other_arguments_are_refused(tmp_path: Path, text: str, argument: str) -> None:
    with pytest.raises(Refusal) as refused:
        find_script((write(tmp_path / "s", text), argument))
    assert refused.value.field == "command"


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("s", b"echo \0\n", "NUL"),
        ("s", b"echo \xff\n", "UTF-8 at byte 5"),
        ("train.py", b"import torch\n", "python"),
        ("s", b"x" * (5 << 20), "too long"),
    ],
)
def test_what_cannot_be_a_command_is_refused(
    tmp_path: Path, name: str, data: bytes, said: str
) -> None:
    with pytest.raises(Refusal, match=said) as refused:
        find_script((write(tmp_path / name, data),))
    assert refused.value.field == "command"
