"""Every code that the source gives a person to read, found by looking at the source itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).parents[3] / "src" / "stoker"
RAISERS = {"AppError", "Refused", "Reason", "Suggestion", "refuse_code"}
"""Whatever is called like this, or like a class of domain/errors.py, takes a code first."""


class Use(NamedTuple):
    """A code in the source, and the values given with it (None: they cannot be seen there)."""

    where: str
    code: str
    values: frozenset[str] | None


def codes_in_source() -> list[Use]:
    return [use for path in sorted(SOURCE.rglob("*.py")) for use in _in_file(path)]


def _in_file(path: Path) -> Iterator[Use]:
    if path.parts[-2] in ("text", "runner", "client"):
        return
    tree = ast.parse(path.read_text())
    raisers = RAISERS | _error_classes()
    for node in ast.walk(tree):
        where = f"{path.relative_to(SOURCE)}:{getattr(node, 'lineno', 0)}"
        if isinstance(node, ast.Call) and _name(node.func) in raisers and node.args:
            code = _text(node.args[0])
            if code is not None:
                yield Use(where, code, _values(node))
        elif isinstance(node, ast.Call) and _name(node.func) == "BadSetting":
            code = _text(node.args[1])
            if code is not None:
                yield Use(where, code, frozenset({"value"}))


def default_codes() -> set[str]:
    """What each class of errors says when nobody says more."""
    tree = ast.parse((SOURCE / "domain" / "errors.py").read_text())
    return {
        text
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and _name(node.targets[0]) == "code"
        and (text := _text(node.value))
    }  # fmt: skip


def _error_classes() -> set[str]:
    tree = ast.parse((SOURCE / "domain" / "errors.py").read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}


def _values(call: ast.Call) -> frozenset[str] | None:
    names = {keyword.arg for keyword in call.keywords}
    if None in names:
        return None
    if _name(call.func) in ("Reason", "Suggestion"):
        return _keys(call.args[1]) if len(call.args) > 1 else None
    return frozenset(name for name in names if name and name not in ("field", "headers"))


def _keys(node: ast.expr) -> frozenset[str] | None:
    if not isinstance(node, ast.Dict):
        return None
    return frozenset(text for key in node.keys if key is not None and (text := _text(key)))


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _text(node: ast.expr) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None
