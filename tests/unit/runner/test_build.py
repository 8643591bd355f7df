"""The runner's one file: deterministic, complete, and able to run without site-packages."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from stoker.runner import build as module
from stoker.runner.build import build, build_id

RUNNER = Path(module.__file__).parent


def isolated(built: Path, code: str) -> str:
    """What `code` prints in a Python that knows the file and the standard library only."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {str(built)!r})\n{code}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_name_is_the_hash_of_the_bytes(tmp_path: Path) -> None:
    built = build(tmp_path)
    assert built.name == f"runner-{build_id()}.pyz"
    assert len(build_id()) == 12
    assert os.listdir(tmp_path) == [built.name]
    assert os.access(built, os.X_OK)


def test_the_same_sources_give_the_same_bytes(tmp_path: Path) -> None:
    built = build(tmp_path)
    fresh = (
        f"import pathlib, sys; sys.path.insert(0, {str(RUNNER.parents[1])!r})\n"
        "from stoker.runner.build import build\n"
        f"print(build(pathlib.Path({str(tmp_path)!r})))\n"
    )
    before = built.stat()
    environ = {**os.environ, "PYTHONHASHSEED": "4", "TZ": "CST-8"}
    command = [sys.executable, "-c", fresh]
    done = subprocess.run(
        command, env=environ, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == str(built)
    after = built.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)  # reused


@pytest.mark.parametrize("damage", [b"", b"#!/usr/bin/env python3\n"])
def test_a_damaged_file_is_replaced(tmp_path: Path, damage: bytes) -> None:
    built = build(tmp_path)
    content = built.read_bytes()
    built.write_bytes(damage)
    assert build(tmp_path).read_bytes() == content


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        build(tmp_path / "missing")
    assert list(tmp_path.iterdir()) == []


def test_it_holds_every_module_and_pynvml(tmp_path: Path) -> None:
    with zipfile.ZipFile(build(tmp_path)) as archive:
        names = archive.namelist()
    assert names == sorted(names)
    expected = {f"stoker_runner/{path.name}" for path in RUNNER.glob("*.py")}
    assert set(names) == expected | {"__main__.py", "pynvml.py"}


def test_from_inside_the_file_the_id_is_the_same(tmp_path: Path) -> None:
    built = build(tmp_path)
    code = "import stoker_runner.build as b; print(b.build_id(), b.__file__)"
    assert isolated(built, code) == f"{build_id()} {built}/stoker_runner/build.py"


def test_a_copy_made_from_inside_is_the_same_file(tmp_path: Path) -> None:
    built = build(tmp_path)
    copies = tmp_path / "copies"
    copies.mkdir()
    code = (
        f"import pathlib, stoker_runner.build as b; print(b.build(pathlib.Path({str(copies)!r})))"
    )
    assert Path(isolated(built, code)).read_bytes() == built.read_bytes()


def test_the_file_is_a_program(tmp_path: Path) -> None:
    built = build(tmp_path)
    for command in ([sys.executable, "-I", "-S", str(built)], [str(built)]):
        done = subprocess.run(
            [*command, "--help"], capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr
        assert "serve" in done.stdout


def test_pynvml_comes_from_the_file(tmp_path: Path) -> None:
    built = build(tmp_path)
    assert isolated(built, "import pynvml; print(pynvml.__file__)") == f"{built}/pynvml.py"
    code = (
        "from stoker_runner.probe import Probe; print(Probe(2).gpus()[1] == '', Probe(0).gpus()[1])"
    )
    assert not isolated(built, code).endswith("No module named 'pynvml'")


def test_every_module_can_be_imported_from_the_file(tmp_path: Path) -> None:
    names = [path.stem for path in RUNNER.glob("*.py") if not path.stem.startswith("__")]
    imports = "; ".join(f"import stoker_runner.{name}" for name in sorted(names))
    foreign = "print([n for n in sys.modules if n.split('.')[0] in ('stoker', 'msgspec', 'site')])"
    assert isolated(build(tmp_path), f"{imports}\n{foreign}") == "[]"


def test_what_a_runner_needs_at_start_does_not_load_the_packer(tmp_path: Path) -> None:
    code = "import stoker_runner.build as b; b.build_id(); print('zipfile' in sys.modules)"
    assert isolated(build(tmp_path), code) == "False"
