"""What the source itself declares: codes that it raises, reasons to wait, notes on fields.

Found by reading the source as text, because a code that is raised is not a value anywhere. A code
that is put together at run time would escape; the tests of the catalogues look for those.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import stoker
from stoker.api.app import ROUTES
from stoker.api.errors import STATUS_OF_CODE, status_of
from stoker.api.permit import act_of
from stoker.domain.errors import AppError, InvalidSpec, NeverFits
from stoker.text import en

SOURCES = Path(stoker.__file__).parent
REASON, SUGGESTION, BAD_SETTING = "Reason", "Suggestion", "BadSetting"
NEVER = ("never_on", "never_fits")
"""The functions whose reasons refuse a submit; all others only say why a task waits."""
ACT = re.compile(r"[a-z]+(\.[a-z]+)?")
ESTIMATE = "estimate_"
"""How the codes begin that say on what an estimate is based."""


@cache
def raised_codes() -> dict[str, type[AppError] | None]:
    """Codes with the class they are raised as; None for a reason to wait or a bad setting."""
    kinds = {kind.__name__: kind for kind in _descendants(AppError)}
    found: dict[str, type[AppError] | None] = {kind.code: kind for kind in kinds.values()}
    for function, call in _calls():
        name = _name(call)
        place = 1 if name == BAD_SETTING else 0
        if name not in (*kinds, REASON, SUGGESTION, BAD_SETTING) or len(call.args) <= place:
            continue
        kind = NeverFits if function.name in NEVER else kinds.get(name)
        for code in _texts(call.args[place], function):
            found.setdefault(code, kind)
    found.update(dict.fromkeys(_validation_codes(), InvalidSpec))
    return found


def wait_codes() -> set[str]:
    """Why a task waits."""
    return {code for code in _codes_of(REASON) if not code.startswith(ESTIMATE)}


def estimate_codes() -> set[str]:
    """On what it is based when a task may start."""
    return {code for code in _codes_of(REASON) if code.startswith(ESTIMATE)}


def suggestion_codes() -> set[str]:
    """What would start a task now."""
    return _codes_of(SUGGESTION) | {code for code in en.TEXTS if code.startswith("try_")}


def _codes_of(kind: str) -> set[str]:
    return {
        code
        for function, call in _calls()
        if _name(call) == kind and function.name not in NEVER and call.args
        for code in _texts(call.args[0], function)
    }


def statuses() -> dict[str, int]:
    """HTTP status by code, for those that the API answers with."""
    found = dict(STATUS_OF_CODE)
    for code, kind in raised_codes().items():
        if kind is not None and code not in found:
            status = status_of(kind(code))
            if status != 500 or code == "internal":  # the others are answered as that one
                found[code] = status
    return found


class DeclaredAct(NamedTuple):
    word: str
    about: str
    """What the function does that puts it into the audit trail, in the words of its docstring."""


def acts() -> list[DeclaredAct]:
    """What the audit trail keeps: every act that the source names, and those on others' tasks."""
    found: dict[str, str] = {}
    for function, call in _calls():
        about = (ast.get_docstring(function) or "").split("\n\n")[0]
        for node in _naming(call):
            for word in _act_words(node, function):
                found[word] = found.get(word) or " ".join(about.split())
    for route in ROUTES:
        if route.task == "act":
            about = (inspect.getdoc(route.handle) or "").split("\n\n")[0]
            found[act_of(route.name)] = f"Of somebody else: {' '.join(about.split())}"
    return [DeclaredAct(word, about) for word, about in sorted(found.items())]


def _naming(call: ast.Call) -> list[ast.expr]:
    """The argument of this call that is the word of an act, if it makes one."""
    is_method = isinstance(call.func, ast.Attribute)
    match _name(call):
        case "Act":
            return [k.value for k in call.keywords if k.arg == "act"]
        case "note" | "act" if is_method:
            return call.args[:1]
        case "_act":
            return call.args
        case _:
            return []


def _act_words(value: ast.expr, function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    """Words of acts in an expression; for a variable, in what it is set to."""
    sources: list[ast.expr] = [value]
    if isinstance(value, ast.Name):
        sources = [
            node.value
            for node in ast.walk(function)
            if isinstance(node, ast.Assign) and _name_of(node.targets[0]) == value.id
        ]
    for source in sources:
        for node in ast.walk(source):
            if isinstance(node, ast.Constant) and ACT.fullmatch(str(node.value)):
                yield str(node.value)


def field_notes(name: str) -> dict[str, str]:
    """The notes under the fields of the class `name`, by field."""
    notes: dict[str, str] = {}
    wire = sorted(SOURCES.glob("wire*.py"))
    for path in (*wire, *sorted((SOURCES / "domain").glob("*.py"))):
        for node in ast.walk(_parsed(path)):
            if isinstance(node, ast.ClassDef) and node.name == name:
                notes.update(_notes(node))
    return notes


def _notes(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for before, after in zip(node.body, node.body[1:], strict=False):
        if isinstance(before, ast.AnnAssign) and isinstance(before.target, ast.Name):
            value = after.value if isinstance(after, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield before.target.id, inspect.cleandoc(value.value)


def _calls() -> Iterator[tuple[ast.FunctionDef | ast.AsyncFunctionDef, ast.Call]]:
    """Every call inside a function."""
    for path in sorted(SOURCES.rglob("*.py")):
        for function in ast.walk(_parsed(path)):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                for node in ast.walk(function):
                    if isinstance(node, ast.Call):
                        yield function, node


def _texts(value: ast.expr, function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    """The code that `value` is; for a variable, the known codes among what it is set to."""
    if isinstance(value, ast.Constant):
        if isinstance(value.value, str) and value.value:
            yield value.value
    elif isinstance(value, ast.Name):
        for node in ast.walk(function):
            if isinstance(node, ast.Assign) and _name_of(node.targets[0]) == value.id:
                for inner in ast.walk(node.value):
                    if isinstance(inner, ast.Constant) and inner.value in en.TEXTS:
                        yield str(inner.value)


def _validation_codes() -> Iterator[str]:
    """`(re.compile(...), code)`: what messages of the decoder mean."""
    for node in ast.walk(_parsed(SOURCES / "domain" / "checks.py")):
        if isinstance(node, ast.Tuple) and len(node.elts) == 2:
            first, second = node.elts
            if isinstance(first, ast.Call) and isinstance(second, ast.Constant):
                yield str(second.value)


def _descendants(kind: type[AppError]) -> Iterator[type[AppError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from _descendants(below)


def _name(call: ast.Call) -> str:
    return _name_of(call.func)


def _name_of(node: ast.expr) -> str:
    return str(getattr(node, "id", getattr(node, "attr", "")))


@cache
def _parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))
