"""Folders and files as a person types them: relative ones, `~`, and links as they are spelled.

They are the server's folders. Where a client's own folders cannot be the same (Windows), nothing is
guessed: they are given as the server knows them.
"""

from __future__ import annotations

import os
import posixpath

from .say import refuse


def absolute_folder(typed: str) -> str:
    """A working folder; "" is the one we are in."""
    if os.name == "nt" and not typed.startswith("/"):
        refuse("usage.server_folder", "workdir", typed=typed or os.getcwd())
    path = _expanded(typed)
    if not path.startswith("/"):
        path = posixpath.join(_current_folder(), path)
    return path.rstrip("/") or "/"


def output_path(typed: str, workdir: str, field: str) -> str:
    """Where output (`field`) goes: words stay, paths are relative to the task's folder."""
    if typed in ("", "merge", "discard", "+"):
        return typed
    plus, path = ("+", typed[1:]) if typed.startswith("+") else ("", typed)
    if os.name == "nt" and ("\\" in path or path[1:2] == ":" or path.startswith("~")):
        refuse("usage.server_path", field, typed=typed)
    return plus + posixpath.join(workdir, _expanded(path))


def _current_folder() -> str:
    """As the person spells it: a shell keeps the name of a link in PWD."""
    try:
        real = os.getcwd()
    except OSError:
        refuse("usage.no_folder", "workdir")
    spelled = os.environ.get("PWD", "")
    try:
        if spelled.startswith("/") and os.path.samefile(spelled, real):
            return spelled
    except OSError:
        pass
    return real


def _expanded(path: str) -> str:
    return os.path.expanduser(path) if path.startswith("~/") or path == "~" else path
