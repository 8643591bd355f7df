"""What may stand in the runner: Python 3.8 grammar, the standard library, and itself."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker import runner

SOURCES = sorted(Path(str(runner.__file__)).parent.glob("*.py"))


def imported(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Top-level package (or "" for a relative import) and its level."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name.split(".")[0], 0) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield ("" if node.level else str(node.module).split(".")[0]), node.level
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "import_module"
        ):
            yield ast.literal_eval(node.args[0]), 0


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_it_is_python_3_8(path: Path) -> None:
    tree = ast.parse(path.read_text(), str(path), feature_version=(3, 8))
    futures = [n for n in tree.body if isinstance(n, ast.ImportFrom) and n.module == "__future__"]
    assert futures or path.name == "__init__.py", "annotations must stay unevaluated"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_it_stands_alone(path: Path) -> None:
    for package, level in imported(ast.parse(path.read_text())):
        if package == "pynvml":
            assert path.name == "nvml.py", "asked for in one place, where its absence is caught"
        elif level:
            assert level == 1, "the package has another name in the one file"
        else:
            assert package in sys.stdlib_module_names


def test_the_check_sees_what_it_should() -> None:
    tree = ast.parse("import a.b\nfrom c.d import e\nfrom ..f import g\nx.import_module('h')")
    assert list(imported(tree)) == [("a", 0), ("c", 0), ("", 2), ("h", 0)]
    with pytest.raises(SyntaxError):
        ast.parse("match x:\n    case 1: pass", feature_version=(3, 8))
