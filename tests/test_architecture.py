"""What no linter checks: sizes, names, that every contract can fail, that docs are complete."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from stoker.domain.task import fields
from stoker.engines.fleet.orders import FROM_SPEC, NOT_IN_LAUNCH

ROOT = Path(__file__).resolve().parent.parent
SOURCES = sorted((ROOT / "src").rglob("*.py"))
EVERYTHING = [
    *SOURCES,
    *sorted((ROOT / "tests").rglob("*.py")),
    *sorted((ROOT / "bench").rglob("*.py")),
]
MOST_LINES = 800


@pytest.mark.parametrize("path", EVERYTHING, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_module_is_too_large(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= MOST_LINES


def test_no_drawer_for_odds_and_ends() -> None:
    assert not [path for path in EVERYTHING if path.stem in ("utils", "helpers", "common", "misc")]


def test_every_module_says_what_it_is() -> None:
    silent = []
    for path in SOURCES:
        code = [line for line in path.read_text().splitlines() if not line.startswith("#")]
        if "".join(code).strip() and not "\n".join(code).lstrip().startswith(('"""', 'r"""')):
            silent.append(str(path.relative_to(ROOT)))
    assert silent == []


def test_every_translator_takes_a_position_on_every_field() -> None:
    names = {field.name for field in fields()}

    assert names == FROM_SPEC | NOT_IN_LAUNCH
    assert not FROM_SPEC & NOT_IN_LAUNCH


CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"][
    "contracts"
]
BREAKERS = {
    "Imports point one way": ("domain/key.py", "import stoker.flow.loop"),
    "flow, access and lab see interfaces only": ("flow/news.py", "import stoker.store.writer"),
    "decisions are pure": ("scheduler/plan.py", "import time"),
    "the runner stands alone": ("runner/protocol.py", "import msgspec"),
    "litestar only in the API": ("wire.py", "import litestar"),
    "the API writes only through flow, access and lab": (
        "api/app.py",
        "import stoker.store.writer",
    ),
}


def test_every_contract_has_something_that_breaks_it() -> None:
    assert {contract["name"] for contract in CONTRACTS} == set(BREAKERS)


@pytest.mark.parametrize("name", BREAKERS)
def test_a_contract_broken_on_purpose_fails(name: str, tmp_path: Path) -> None:
    """A copy of the tree with one bad import: only that contract must be reported."""
    subprocess.run(
        ["cp", "-r", str(ROOT / "src"), str(ROOT / "pyproject.toml"), tmp_path], check=True
    )
    where, line = BREAKERS[name]
    target = tmp_path / "src" / "stoker" / where
    target.write_text(target.read_text() + f"\n{line}\n")
    linter = Path(sys.executable).parent / "lint-imports"

    done = subprocess.run(
        [linter, "--no-cache"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path / "src"), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode != 0
    assert f"{name} BROKEN" in done.stdout
