"""The runner must start on Python 3.8 with nothing but the standard library."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

import stoker.runner

SOURCES = sorted(Path(stoker.runner.__file__).parent.glob("*.py"))
GUARDED = {"pynvml"}


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_a_module_is_python_3_8_and_stands_alone(path: Path) -> None:
    tree = ast.parse(path.read_text(), feature_version=(3, 8))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = {str(node.module).split(".")[0]}
        else:
            continue
        assert names <= sys.stdlib_module_names | GUARDED, (path.name, names)
