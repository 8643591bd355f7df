"""Folders and files as a person types them: relative ones, `~`, and links as they are spelled."""

from __future__ import annotations

import os

from .say import refuse


def absolute_folder(typed: str) -> str:
    """A working folder; "" is the one we are in."""
    return os.path.join(_current_folder(), _expanded(typed)).rstrip("/") or "/"


def output_path(typed: str, workdir: str) -> str:
    """Where output goes: words stay, paths are relative to the task's folder."""
    if typed in ("", "merge", "discard", "+"):
        return typed
    plus, path = ("+", typed[1:]) if typed.startswith("+") else ("", typed)
    return plus + os.path.join(workdir, _expanded(path))


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
