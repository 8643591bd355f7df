"""Finds a conda or virtual environment, by name or by folder.

Only looks: no program of the environment is run here. It may touch home folders, which may hang
or be closed to others: only a process that has become the account calls it, never the runner's
loop or the forker. Paths are bytes, because the locale must have no say in them.

A folder with `conda-meta/` is a conda environment, one with `pyvenv.cfg` a virtual environment.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from dataclasses import dataclass
from typing import Dict, Iterable, List, Mapping, Optional, Sequence

from .command import encoded

CONDA, VENV = "conda", "venv"
NONE = ("", "none")
"""Words for no environment at all."""
MISSING, AMBIGUOUS, NOT_ONE, BROKEN = (
    "environment_missing",
    "environment_ambiguous",
    "not_an_environment",
    "environment_broken",
)

_ROOTS = (
    "~/miniconda3", "~/anaconda3", "~/miniforge3", "~/mambaforge", "~/micromamba", "~/.conda",
    "~/.local/share/mamba", "/opt/conda", "/opt/miniconda3", "/opt/anaconda3", "/opt/miniforge3",
    "/opt/mambaforge",
)  # fmt: skip
"""Where people install conda. Its environments are in `envs/`; itself it is called base."""
_MAMBA = "MAMBA_ROOT_PREFIX"
_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG)
_MOST_BYTES = 1 << 20
_MOST_NAMES = 500
_ENVS_DIRS = re.compile(rb"envs_(?:dirs|path)[ \t]*:(.*)")
_ITEM = re.compile(rb"[ \t]*-[ \t]+(.*)")


@dataclass(frozen=True)
class Environment:
    """One that is there."""

    kind: str
    prefix: bytes
    name: bytes
    """As conda calls it: `base`, the name of its folder in `envs/`, or the whole prefix."""


class Unusable(Exception):
    """There is no such environment, or it cannot be used. `code` is one of the four above."""

    def __init__(self, code: str, detail: str, names: Sequence[str] = ()) -> None:
        super().__init__(code, detail)
        self.code, self.detail = code, detail
        self.names = list(names)
        """Those that there are, or the prefixes that have the name in common."""


def find(wanted: str, home: str, environ: Mapping[str, str]) -> Environment:
    """The environment that is meant. `environ` may tell where conda is. Raises Unusable."""
    name = encoded(wanted)
    if name.startswith(b"/"):
        return _at(name.rstrip(b"/") or b"/")
    places = Places(encoded(home), environ)
    found: Dict[bytes, bytes] = {}
    for prefix in places.called(name):
        if _is_conda(prefix):
            found.setdefault(os.path.realpath(prefix), prefix)
    if not found:
        raise Unusable(MISSING, wanted, places.names())
    if len(found) > 1:
        prefixes = [text(prefix) for prefix in found.values()]
        raise Unusable(AMBIGUOUS, ", ".join(prefixes), prefixes)
    (prefix,) = found.values()
    return _usable(Environment(CONDA, prefix, name))


class Places:
    """Where the conda environments of an account may be."""

    def __init__(self, home: bytes, environ: Mapping[str, str]) -> None:
        self._listed = _lines(_read(os.path.join(home, b".conda", b"environments.txt")))
        conda = encoded(environ.get("CONDA_EXE", ""))  # ROOT/bin/conda
        told = [os.path.dirname(os.path.dirname(conda)), encoded(environ.get(_MAMBA, ""))]
        self._roots = _absolute([*(root.encode("ascii") for root in _ROOTS), *told], home)
        self._roots += [prefix for prefix in self._listed if _is_root(prefix)]
        own = _absolute(_envs_dirs(_read(os.path.join(home, b".condarc"))), home)
        self._folders = own + [os.path.join(root, b"envs") for root in self._roots]

    def called(self, name: bytes) -> List[bytes]:
        """Prefixes that may be the environment of that name. They need not exist."""
        if name == b"base":
            return list(self._roots)
        listed = [prefix for prefix in self._listed if os.path.basename(prefix) == name]
        return [os.path.join(folder, name) for folder in self._folders] + [
            prefix for prefix in listed if prefix not in self._roots
        ]

    def names(self) -> List[str]:
        """Names of the environments there are, for somebody who mistyped one."""
        prefixes = [p for p in self._listed if p not in self._roots]
        for folder in dict.fromkeys(self._folders):
            prefixes += [os.path.join(folder, name) for name in _entries(folder)]
        there = {os.path.basename(p) for p in prefixes[:_MOST_NAMES] if _is_conda(p)}
        if any(_is_conda(root) for root in self._roots):
            there.add(b"base")
        return sorted(text(name) for name in there)


def text(path: bytes) -> str:
    """A path as it is told to others."""
    return path.decode("utf-8", "replace")


def _at(prefix: bytes) -> Environment:
    shown = text(prefix)
    try:
        if _status(prefix) is None:
            raise Unusable(MISSING, shown)
        if _status(os.path.join(prefix, b"conda-meta")) is not None:
            return _usable(Environment(CONDA, prefix, _name(prefix)))
        if _status(os.path.join(prefix, b"pyvenv.cfg")) is not None:
            return _usable(Environment(VENV, prefix, os.path.basename(prefix)))
    except OSError as error:  # not for this account to look at, say
        raise Unusable(BROKEN, f"{shown}: {error.strerror or error}") from error
    raise Unusable(NOT_ONE, shown)


def _usable(found: Environment) -> Environment:
    """It has a Python that is there. A conda environment may have none at all."""
    python = os.path.join(found.prefix, b"bin", b"python")
    must = found.kind == VENV or os.path.islink(python)
    if must and not os.path.exists(python):
        raise Unusable(BROKEN, f"{text(found.prefix)}: bin/python is not there")
    return found


def _name(prefix: bytes) -> bytes:
    parent, name = os.path.split(prefix)
    if os.path.basename(parent) == b"envs":
        return name
    return b"base" if _is_root(prefix) else prefix


def _is_root(prefix: bytes) -> bool:
    is_below = os.path.basename(os.path.dirname(prefix)) == b"envs"
    return not is_below and os.path.isdir(os.path.join(prefix, b"condabin"))


def _is_conda(prefix: bytes) -> bool:
    return os.path.isdir(os.path.join(prefix, b"conda-meta"))


def _status(path: bytes) -> Optional[os.stat_result]:
    try:
        return os.stat(path)
    except OSError as error:
        if error.errno in _ABSENT:
            return None
        raise


def _entries(folder: bytes) -> List[bytes]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _read(path: bytes) -> bytes:
    """The beginning of a small file; b"" when there is none to be read."""
    try:
        # NONBLOCK: opening a pipe must not wait for its writer.
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(fd, _MOST_BYTES) if stat.S_ISREG(os.fstat(fd).st_mode) else b""
    except OSError:
        return b""
    finally:
        os.close(fd)


def _lines(raw: bytes) -> List[bytes]:
    """Absolute paths, one per line."""
    lines = (line.strip().rstrip(b"/") for line in raw.splitlines())
    return list(dict.fromkeys(line for line in lines if line.startswith(b"/")))


def _envs_dirs(raw: bytes) -> List[bytes]:
    """`envs_dirs` of a .condarc: the two usual ways to write a list, anything else is passed over."""
    found: List[bytes] = []
    is_inside = False
    for line in raw.splitlines():
        key, item = _ENVS_DIRS.match(line), _ITEM.match(line)
        if key is not None:
            is_inside = True
            found += _inline(key[1])
        elif is_inside and item is not None:
            found += _scalars([item[1]])
        elif line.strip() and not line.lstrip().startswith(b"#"):
            is_inside = False
    return found


def _inline(rest: bytes) -> List[bytes]:
    """`[a, b]` or a single word behind the key."""
    rest = rest.split(b" #")[0].strip()
    if rest.startswith(b"["):
        return _scalars(rest[1:].rstrip(b"]").split(b","))
    return _scalars([rest])


def _scalars(words: Iterable[bytes]) -> List[bytes]:
    bare = (word.split(b" #")[0].strip().strip(b"'\"") for word in words)
    return [word for word in bare if word and not word.startswith(b"#")]


def _absolute(paths: Iterable[bytes], home: bytes) -> List[bytes]:
    """Those that are, with `~` in front of them read as the home folder."""
    full = (os.path.join(home, p[2:]) if p.startswith(b"~/") else p for p in paths)
    return [path for path in full if path.startswith(b"/")]
