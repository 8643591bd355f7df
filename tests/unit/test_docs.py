"""The docs are complete, current and consistent: what the code declares is on a page.

Generated pages are compared with what the code says now. Hand-written ones are held to it where
they name things: files, tests, kill points, commands, words.
"""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields as settings_of
from importlib import import_module
from pathlib import Path

import click
import pytest

import stoker as sdk
from stoker.api.app import ROUTES
from stoker.cli.run import COMMANDS, stoker
from stoker.client import Client, Refused, ServerUnreachable
from stoker.config import Settings
from stoker.domain.event import EVENTS
from stoker.domain.lifecycle import State
from stoker.domain.outcome import OUTCOME_OF
from stoker.domain.task import fields
from stoker.runner.killpoint import POINTS
from stoker.text import en_cli, state_word

ROOT = Path(__file__).resolve().parent.parent.parent
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
TRANSLATED = [
    ("README.md", "README.zh.md"),
    ("docs/tutorial/first-task.md", "docs/tutorial/first-task.zh.md"),
]


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def prose(path: Path) -> str:
    """A page without its code blocks."""
    return re.sub(r"^```.*?^```$", "", path.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)


def test_generated_pages_are_current() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "docs.py"), "--check"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, f"run `make docs`:\n{done.stdout}{done.stderr}"


# ---- everything that is declared is on a page


def test_every_command_and_option_is_in_the_docs() -> None:
    page = read("docs/reference/cli.md")
    known = page + read("docs/reference/task.md")  # fields that are refused for now are there
    context = click.Context(stoker)

    for name in COMMANDS:
        command = stoker.get_command(context, name)
        assert command is not None
        assert f"## stoker {name}\n" in page
        below = list(command.commands.values()) if isinstance(command, click.Group) else []
        for parameter in (p for one in (command, *below) for p in one.params):
            if isinstance(parameter, click.Option):
                assert any(re.search(rf"{opt}\b", known) for opt in parameter.opts), parameter.opts


def test_every_field_is_in_the_docs() -> None:
    page = read("docs/reference/task.md")

    assert [field.name for field in fields() if f"| `{field.name}` |" not in page] == []


def test_every_route_and_parameter_is_in_the_docs() -> None:
    page = read("docs/reference/api.md")

    for route in ROUTES:
        title = f"### {route.method} {route.path}\n"
        assert title in page
        section = page.partition(title)[2].partition("\n### ")[0]
        assert [name for name in route.query.__struct_fields__ if f"`{name}`" not in section] == []


def test_every_name_of_the_sdk_is_in_the_docs() -> None:
    page = read("docs/reference/sdk.md")
    members = [name for name in dir(Client) if not name.startswith("_")]

    assert [name for name in members if f"### Client.{name}\n" not in page] == []
    assert [name for name in sdk.__all__ if f"stoker.{name}" not in page and name[0] != "_"] == []
    for method in (getattr(Client, name) for name in members):
        for parameter in inspect.signature(method).parameters if callable(method) else ():
            section = page.partition(f"### Client.{method.__name__}\n")[2].partition("\n### ")[0]
            assert parameter == "self" or f"{parameter}: " in section, method
    for kind in (Refused, ServerUnreachable):
        section = page.partition(f"### stoker.{kind.__name__}\n")[2].partition("\n### ")[0]
        for parameter in list(inspect.signature(kind).parameters):
            assert f"`{parameter}`" in section, parameter
    whys = {key.split(".")[1] for key in en_cli.PHRASES if key.startswith("unreachable.")}
    assert whys == set(re.findall(r"\b(?:no|bad|not)_\w+|\bgone\b|\bcut\b", section))


def test_every_setting_is_in_the_docs() -> None:
    page = read("docs/reference/settings.md")

    for setting in settings_of(Settings):
        variable = f"`STOKER_{setting.name.upper()}`"
        if setting.metadata["example"]:  # only the file can say it
            variable = "–"
        assert f"| `{setting.name}` | {variable} |" in page


def test_every_state_event_and_reason_is_in_the_docs() -> None:
    page = read("docs/explanation/lifecycle.md")
    names = [*State, *(event.__name__ for event in EVENTS), *OUTCOME_OF, *OUTCOME_OF.values()]

    assert [name for name in names if f"`{name}`" not in page] == []


def test_every_code_and_reason_is_in_the_docs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    raised = import_module("pages.declared").raised_codes()
    page = read("docs/reference/errors.md")

    assert len(raised) > 40
    assert [code for code in (*raised, *OUTCOME_OF) if f"| `{code}` |" not in page] == []


def test_the_glossary_has_the_words_that_people_read() -> None:
    page = read("docs/glossary.md")

    for state in State:
        if state is not State.FINISHED:
            assert f"| `{state}` | {state_word(state, None, 'en')} |" in page
            assert f"| {state_word(state, None, 'zh')} |" in page
    for outcome in set(OUTCOME_OF.values()):
        assert f"| `{outcome}` | {state_word('FINISHED', outcome, 'en')} |" in page
        assert f"| {state_word('FINISHED', outcome, 'zh')} |" in page


def test_the_architecture_names_every_part() -> None:
    page = read("ARCHITECTURE.md")
    parts = [
        path.name + ("/" if path.is_dir() else "")
        for path in (ROOT / "src" / "stoker").iterdir()
        if path.name not in ("__init__.py", "__pycache__", "py.typed")
    ]

    assert [part for part in parts if not re.search(rf"^ +{re.escape(part)} ", page, re.M)] == []


def test_every_make_target_is_explained() -> None:
    targets = re.findall(r"^([a-z]+):.*## ", read("Makefile"), re.MULTILINE)
    page = read("CONTRIBUTING.md")
    small = {"help", "install", "dev"}

    assert len(targets) > len(small)
    assert [name for name in targets if name not in small and f"`make {name}`" not in page] == []


def test_every_part_of_soak_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    page = read("CONTRIBUTING.md")

    assert [part for part in import_module("parts").SOAK if f"`{part}`" not in page] == []


def test_decisions_are_listed_in_order_and_commands_in_the_changelog() -> None:
    listed = re.findall(r"\(decisions/([^)]+)\)", read("docs/README.md"))
    changes = read("CHANGELOG.md")

    assert listed == sorted(path.name for path in (DOCS / "decisions").glob("*.md"))
    assert [name for name in COMMANDS if f"`{name}`" not in changes] == []


# ---- what a page names is there


def test_the_protocol_names_the_kill_points_and_real_tests() -> None:
    page = read("docs/explanation/protocol.md")
    tests = "".join(path.read_text("utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    named = set(re.findall(r"`(test_\w+)`", page))

    assert [point for point in POINTS if f"▲ `{point}`" not in page] == []
    assert named
    assert sorted(name for name in named if f"def {name}(" not in tests) == []


SOURCE = re.compile(r"`((?:[a-z_]+/)+[a-z_*]+\.(?:py|toml|txt|md))`")


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_that_a_page_names_exist(page: Path) -> None:
    places = (ROOT, ROOT / "src" / "stoker", ROOT / "tests")
    named = SOURCE.findall(page.read_text("utf-8"))

    assert [name for name in named if not any((at / name).exists() for at in places)] == []


def slug(heading: str) -> str:
    """A heading's anchor, as GitHub makes it."""
    kept = "".join(c for c in heading.lower() if c.isalnum() or c in " -_")
    return kept.strip().replace(" ", "-")


def links() -> Iterator[tuple[Path, str]]:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
            if not re.match(r"[a-z]+:", target):
                yield page, target


def test_every_relative_link_works() -> None:
    broken = []
    for page, target in links():
        name, _, anchor = target.partition("#")
        file = page if not name else Path(os.path.normpath(page.parent / name))
        anchors = (
            {slug(h) for h in re.findall(r"^#+ (.*)$", prose(file), re.M)} if anchor else set()
        )
        if not file.exists() or (anchor and anchor not in anchors):
            broken.append(f"{page.relative_to(ROOT)}: {target}")

    assert broken == []


def test_every_page_can_be_reached_from_the_index() -> None:
    index = DOCS / "README.md"
    linked = {Path(os.path.normpath(page.parent / to)) for page, to in links() if page == index}

    assert [str(page) for page in DOCS.rglob("*.md") if page not in {index, *linked}] == []


# ---- consistent among themselves


@pytest.mark.parametrize(("english", "chinese"), TRANSLATED)
def test_both_languages_have_the_same_sections_and_commands(english: str, chinese: str) -> None:
    def shape(name: str) -> list[int]:
        return [len(marks) for marks in re.findall(r"^(#+) ", prose(ROOT / name), re.MULTILINE)]

    def commands(name: str) -> list[str]:
        return re.findall(r"^\$ .*$|^make \w+", read(name), re.MULTILINE)

    def targets(name: str) -> list[str]:
        found = re.findall(r"\]\(([^)\s]+)\)", read(name))
        return [target.replace(".zh.md", ".md") for target in found]

    assert shape(english) == shape(chinese)
    assert commands(english) == commands(chinese)
    assert targets(english) == targets(chinese)


def test_the_readme_opens_with_the_two_commands() -> None:
    for name in ("README.md", "README.zh.md"):
        first = re.search(r"^```sh\n(.*?)^```", read(name), re.MULTILINE | re.DOTALL)
        assert first is not None
        assert re.findall(r"^make \w+", first[1], re.MULTILINE) == ["make up", "make test"]


@pytest.mark.parametrize(
    "page", sorted((DOCS / "decisions").glob("*.md")), ids=lambda path: str(path.stem)
)
def test_a_decision_has_its_five_sections(page: Path) -> None:
    text = page.read_text("utf-8")

    assert re.match(rf"# {page.name[:4]}\. ", text)
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == [
        "Status", "Context", "Decision", "Consequences", "Alternatives",
    ]  # fmt: skip


FORBIDDEN = {
    "a package registry": r"pypi\.|pythonhosted|npmjs|mirrors?\.[a-z]|tuna\.|aliyun|conda\.anaconda",
    "a path of one machine": r"(?<![\w~.$])/(?:home/\w|root/|work/|Users/)",
}


@pytest.mark.parametrize("what", FORBIDDEN)
def test_pages_are_not_about_one_machine(what: str) -> None:
    found = [
        f"{page.relative_to(ROOT)}: {hit[0]}"
        for page in PAGES
        for hit in re.finditer(FORBIDDEN[what], page.read_text("utf-8"))
    ]

    assert found == []
