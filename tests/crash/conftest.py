"""One witness program and one zygote for the whole suite; a fresh site for every test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import DATABASE

from . import witness
from .harness import Site
from .server import Program, Zygote

MakeSite = Callable[..., Site]


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return witness.build(tmp_path_factory.mktemp("witness") / "witness")


@pytest.fixture(scope="session")
def zygote() -> Iterator[Zygote]:
    started = Zygote()
    yield started
    started.close()


@pytest.fixture
def make_site(
    request: pytest.FixtureRequest, tmp_path: Path, program: Path, zygote: Zygote
) -> Iterator[MakeSite]:
    """Sites with the arguments of `Site`; each is ended after the test, whatever happened."""
    made: list[Site] = []
    starters: list[Program] = []

    def make(start: Program | None = None, **how: Any) -> Site:
        folder = tmp_path / f"site{len(made)}"
        folder.mkdir()
        starters.extend([start] if start else [])
        if DATABASE == "postgresql":
            how.setdefault("database", request.getfixturevalue("postgres").fresh())
        made.append(Site(folder, start or zygote, program, **how))
        return made[-1]

    yield make
    for site in made:
        site.close()
    for starter in starters:
        starter.close()


@pytest.fixture
def site(make_site: MakeSite) -> Site:
    return make_site()
