"""The environment a task runs in, as a person sees it: the one that is active in this terminal.

A name is conda's; what has a slash is a folder. The active one is taken only when the server is
this machine's: on another machine the same folder may be something else, or nothing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

from stoker.domain.task import NO_ENVIRONMENT

from .client import Client
from .paths import absolute_folder
from .say import words
from .screen import clean


def named(typed: str) -> str:
    """What was typed: a word stays, a folder becomes an absolute path."""
    is_folder = "/" in typed or typed in (".", "..", "~")
    if not is_folder or "://" in typed or os.name == "nt":  # folders there are never the server's
        return typed
    return absolute_folder(typed.removeprefix("./"))


def add_active(values: dict[str, Any], client: Client, environ: Mapping[str, str]) -> bool:
    """Put the active environment into `values` if none was named; whether that was done."""
    if "environment" in values:
        values["environment"] = named(values["environment"])
        return False
    found = active(environ)
    if not found:
        return False
    if not client.is_local:
        sys.stderr.write(words("submit.not_active", environment=clean(found)) + "\n")
        return False
    values["environment"] = found
    return True


def active(environ: Mapping[str, str]) -> str:
    """The folder of the active environment, "" when there is none. Of two: the first in PATH."""
    found = [environ.get(name, "") for name in ("VIRTUAL_ENV", "CONDA_PREFIX")]
    there = [folder.rstrip("/") for folder in found if folder.startswith("/")]
    path = environ.get("PATH", "").split(os.pathsep)

    def place(folder: str) -> int:
        bin = os.path.join(folder, "bin")
        return path.index(bin) if bin in path else len(path)

    return min(there, key=place, default="")


def where(environment: str, *, is_active: bool) -> str | None:
    """In which environment it runs, as one line; None when in none."""
    if environment in NO_ENVIRONMENT:
        return None
    key = "submit.active" if is_active else "submit.environment"
    return words(key, environment=clean(environment))
