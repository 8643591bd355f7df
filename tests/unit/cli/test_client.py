"""The client of the commands is used by all of them."""

from __future__ import annotations

import ast
from pathlib import Path

import stoker.cli

QUIET = {"candidates", "client", "down", "service", "top", "feed", "log", "up"}
"""What starts and ends servers, what completes a word, and what draws the news itself."""


def test_every_command_tells_the_news_and_can_ask_for_the_password() -> None:
    own = {
        path.stem if path.stem != "__init__" else path.parent.name
        for path in Path(stoker.cli.__file__).parent.rglob("*.py")
        if _takes_the_plain_client(path)
    }
    assert own - QUIET == set()


def _takes_the_plain_client(path: Path) -> bool:
    return any(
        isinstance(node, ast.ImportFrom)
        and node.module == "stoker.client"
        and node.level == 0
        and any(name.name == "Client" for name in node.names)
        for node in ast.walk(ast.parse(path.read_text()))
    )
