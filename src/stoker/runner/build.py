"""The runner as one file, for nodes that have nothing but sshd and python3.

A zip that Python runs: this folder as the package `stoker_runner`, and nvidia-ml-py's pynvml.py.
The same input gives the same bytes (sorted, fixed times, not compressed: no zlib has a say), and
the name is made from them: a file of that name never changes, so it can be replaced at any time.
Run inside the zip, `build_id` is the hash of that very file.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import io
import os
import zipimport
from pathlib import Path
from typing import Dict

PACKAGE = "stoker_runner"

_SHEBANG = b"#!/usr/bin/env python3\n"
_MAIN = f"import sys\n\nfrom {PACKAGE}.__main__ import main\n\nsys.exit(main())\n"


def build_id() -> str:
    """12 hex digits: of the file that we run from, or of the one that `build` would write."""
    return _hash(_packed())


def build(folder: Path) -> Path:
    """The file in `folder`, written unless it is there with the right bytes. Atomic."""
    packed = _packed()
    path = folder / f"runner-{_hash(packed)}.pyz"
    with contextlib.suppress(FileNotFoundError):
        if path.read_bytes() == packed:
            return path
    draft = folder / f"{path.name}.{os.getpid()}"
    try:
        with open(draft, "wb") as file:
            file.write(packed)
            os.fchmod(file.fileno(), 0o755)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(draft)
    return path


@functools.lru_cache(maxsize=1)
def _packed() -> bytes:
    # Read once: what runs is what was there at the start, whatever an upgrade does to the files.
    loader: object = __spec__.loader
    if isinstance(loader, zipimport.zipimporter):
        return Path(loader.archive).read_bytes()
    return _pack(_sources())


def _sources() -> Dict[str, bytes]:
    """Name in the zip to content."""
    import importlib.metadata  # noqa: PLC0415 - slow, and a runner never packs

    here = Path(__file__).parent
    found = {f"{PACKAGE}/{path.name}": path.read_bytes() for path in here.glob("*.py")}
    found["__main__.py"] = _MAIN.encode("ascii")
    # By distribution, not by import: another package on PyPI is called pynvml as well.
    nvml = importlib.metadata.distribution("nvidia-ml-py").locate_file("pynvml.py")
    found["pynvml.py"] = Path(str(nvml)).read_bytes()
    return found


def _pack(sources: Dict[str, bytes]) -> bytes:
    import zipfile  # noqa: PLC0415 - as above

    buffer = io.BytesIO()
    buffer.write(_SHEBANG)
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(sources):
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.create_system = 3  # unix, wherever it is built
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, sources[name])
    return buffer.getvalue()


def _hash(packed: bytes) -> str:
    return hashlib.sha256(packed).hexdigest()[:12]
