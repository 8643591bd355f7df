"""Genuine conda environments, made offline: a package is packed, indexed, solved and installed.

There is no conda on a test machine; py-rattler does the same work on a channel of files. It does
so in a process of its own, which ends at once when it is done: py-rattler 0.28 leaves threads
behind that may crash an interpreter on its way out.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
PYTHON = f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n'
"""The environment's interpreter: the one that runs the tests, by another name."""


def make_conda(
    prefix: Path,
    *,
    python: str | None = PYTHON,
    activate: str = "",
    variables: Mapping[str, str] | None = None,
) -> Path:
    """A conda environment at `prefix`, with its own `bin/python` and activation."""
    files = {"share/stoker-test/hello": "hello\n"}
    if python is not None:
        files["bin/python"] = python
    if activate:
        files["etc/conda/activate.d/tiny-activate.sh"] = activate
    channel = prefix.parent / f".channel-{hashlib.sha256(bytes(prefix)).hexdigest()[:8]}"
    _pack(channel / "noarch" / "tiny-1.0-0.tar.bz2", files)
    install = [sys.executable, "-m", "tests.helpers.conda", str(channel), str(prefix)]
    subprocess.run(install, cwd=ROOT, check=True, timeout=60)
    if variables is not None:  # as `conda env config vars set` writes it
        state = {"version": 1, "env_vars": dict(variables)}
        (prefix / "conda-meta" / "state").write_text(json.dumps(state))
    assert list((prefix / "conda-meta").glob("tiny-1.0-0.json"))
    return prefix


async def _install(channel: Path, prefix: Path) -> None:
    import rattler  # noqa: PLC0415 - only in the process of its own
    from rattler.index import index_fs  # noqa: PLC0415

    await index_fs(channel)
    records = await rattler.solve(
        [rattler.Channel(channel.as_uri())], ["tiny"], platforms=["noarch"]
    )
    cache = channel / "cache"
    await rattler.install(records, prefix, cache_dir=cache, show_progress=False)


def _pack(path: Path, files: Mapping[str, str]) -> None:
    index = {
        "name": "tiny", "version": "1.0", "build": "0", "build_number": 0,
        "depends": [], "subdir": "noarch", "arch": None, "platform": None, "noarch": "generic",
        "timestamp": 1_700_000_000_000,
    }  # fmt: skip
    paths = [
        {
            "_path": name,
            "path_type": "hardlink",
            "sha256": hashlib.sha256(text.encode()).hexdigest(),
            "size_in_bytes": len(text.encode()),
        }
        for name, text in files.items()
    ]
    everything = {
        **files,
        "info/index.json": json.dumps(index),
        "info/paths.json": json.dumps({"paths": paths, "paths_version": 1}),
        "info/files": "".join(f"{name}\n" for name in files),
    }
    path.parent.mkdir(parents=True)
    with tarfile.open(path, "w:bz2") as archive:
        for name, text in everything.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(text.encode()), 0o755
            archive.addfile(entry, io.BytesIO(text.encode()))


if __name__ == "__main__":
    asyncio.run(_install(Path(sys.argv[1]), Path(sys.argv[2])))
    os._exit(0)
