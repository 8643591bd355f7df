"""What `submit` makes of what was typed, up to the moment it would be sent."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from stoker.cli import submit
from stoker.cli.run import stoker
from stoker.cli.say import Refusal


class Sent(Exception):
    """Raised in place of a connection: `spec` is what would have gone."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.spec = spec


@pytest.fixture(autouse=True)
def _no_server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def stop(**values: Any) -> None:
        raise Sent(values)

    monkeypatch.setattr(submit, "TaskSpec", stop)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PWD", str(tmp_path))


def sent(*args: str) -> dict[str, Any]:
    with pytest.raises(Sent) as found:
        stoker.main(["submit", *args], standalone_mode=False)
    return found.value.spec


def refused(*args: str) -> Refusal:
    with pytest.raises(Refusal) as found:
        stoker.main(["submit", *args], standalone_mode=False)
    return found.value


def test_exact_arguments() -> None:
    assert sent("--", "python", "-c", "x", "--", "-g", "")["command"] == (
        "python", "-c", "x", "--", "-g", "",
    )  # fmt: skip
    assert sent("-g", "1", "python", "train.py", "-g", "2")["command"] == (
        "python", "train.py", "-g", "2",
    )  # fmt: skip


def test_a_line_for_the_shell() -> None:
    spec = sent("-c", "cd x && python a.py", "-g", "2")
    assert spec["command"] == "cd x && python a.py"
    assert spec["gpus"] == 2


def test_a_script_is_text_and_what_was_typed_wins(tmp_path: Path) -> None:
    text = "#!/bin/sh\n#STOKER -g 2 -t 1h -e A=1 -e B=1 --gpu-ids 0\necho\n"
    (tmp_path / "train.sh").write_text(text)
    spec = sent("-g", "3", "-e", "B=2", "--gpu-ids", "1", "train.sh")
    assert spec["command"] == text
    assert spec["name"] == "train.sh"
    assert spec["gpus"] == 3
    assert spec["time_limit_s"] == 3600
    assert spec["env"] == {"A": "1", "B": "2"}
    assert spec["gpu_ids"] == (0, 1)
    assert sent("-n", "mine", "train.sh")["name"] == "mine"


def test_who_names_the_cards_has_said_how_many() -> None:
    assert sent("--gpu-ids", "0,2", "--", "x")["gpus"] == 2
    assert sent("-g", "3", "--gpu-ids", "0,2", "--", "x")["gpus"] == 3


def test_after_two_dashes_a_script_is_just_a_word(tmp_path: Path) -> None:
    (tmp_path / "train.sh").write_text("#!/bin/sh\n#STOKER -g 2\n")
    spec = sent("--", "train.sh")
    assert spec["command"] == ("train.sh",)
    assert "gpus" not in spec
    assert "name" not in spec


@pytest.mark.parametrize("line", ["-c x", "-- x", "x", "--json", "--dry-run"])
def test_lines_of_a_script_hold_options_only(tmp_path: Path, line: str) -> None:
    (tmp_path / "train.sh").write_text(f"#STOKER {line}\n")
    assert refused("train.sh").field == "command"


def test_nothing_to_run() -> None:
    for args in ([], ["-g", "1"], ["--"], ["-c", "x", "y"], ["-c", "x", "--", "y"]):
        assert refused(*args).field == "command"


def test_the_folder_is_the_current_one_as_it_is_spelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    monkeypatch.chdir(tmp_path / "link")
    monkeypatch.setenv("PWD", str(tmp_path / "link"))
    assert sent("--", "x")["workdir"] == str(tmp_path / "link")
    monkeypatch.setenv("PWD", "/somewhere/else")
    assert sent("--", "x")["workdir"] == str(tmp_path / "real")
    monkeypatch.delenv("PWD")
    assert sent("--", "x")["workdir"] == str(tmp_path / "real")


@pytest.mark.parametrize(
    ("typed", "workdir"),
    [("/data", "/data"), ("sub", "{here}/sub"), (".", "{here}/."), ("~/x", "{home}/x"), ("/", "/")],
)
def test_a_folder_that_was_given(tmp_path: Path, typed: str, workdir: str) -> None:
    expected = workdir.format(here=tmp_path, home=os.path.expanduser("~"))
    assert sent("-w", typed, "--", "x")["workdir"] == expected


@pytest.mark.parametrize(
    ("typed", "path"),
    [
        ("out.txt", "/data/out.txt"),
        ("+out.txt", "+/data/out.txt"),
        ("/logs/out.txt", "/logs/out.txt"),
        ("+/logs/out.txt", "+/logs/out.txt"),
        ("discard", "discard"),
        ("merge", "merge"),
        ("+", "+"),
        ("", ""),
    ],
)
@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_output_paths_are_relative_to_the_folder(stream: str, typed: str, path: str) -> None:
    assert sent("-w", "/data", f"--{stream}", typed, "--", "x")[stream] == path


def test_a_folder_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert refused("--", "x").field == "workdir"


@pytest.mark.parametrize(
    ("args", "field"),
    [
        (["--", "x", "\udcff"], "command[1]"),
        (["-c", "\udcff"], "command"),
        (["-n", "\udcff", "--", "x"], "name"),
        (["-e", "A=\udcff", "--", "x"], "env.A"),
        (["-e", "\udcff=1", "--", "x"], "env"),
        (["-w", "/\udcff", "--", "x"], "workdir"),
    ],
)
def test_bytes_that_are_no_text_are_refused_by_field(
    args: list[str], field: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert refused(*args).field == field
