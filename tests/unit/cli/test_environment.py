"""Which environment `submit` means: what was typed, else the one that is active here."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from stoker.cli.client import Client
from stoker.cli.environment import active, add_active, named


@pytest.mark.parametrize(
    ("environ", "found"),
    [
        ({}, ""),
        ({"PATH": "/usr/bin"}, ""),
        ({"VIRTUAL_ENV": "/v"}, "/v"),
        ({"CONDA_PREFIX": "/c/"}, "/c"),
        ({"VIRTUAL_ENV": "/v", "CONDA_PREFIX": "/c"}, "/v"),
        ({"VIRTUAL_ENV": "/v", "CONDA_PREFIX": "/c", "PATH": "/c/bin:/v/bin:/bin"}, "/c"),
        ({"VIRTUAL_ENV": "/v", "CONDA_PREFIX": "/c", "PATH": "/v/bin:/c/bin:/bin"}, "/v"),
        ({"VIRTUAL_ENV": "/v", "CONDA_PREFIX": "/c", "PATH": "/c/bin:/bin"}, "/c"),
        ({"VIRTUAL_ENV": "", "CONDA_PREFIX": "/c 环"}, "/c 环"),
        ({"CONDA_PREFIX": "C:\\conda"}, ""),
    ],
)
def test_the_active_one_is_the_first_in_path(environ: dict[str, str], found: str) -> None:
    assert active(environ) == found


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("ml", "ml"),
        ("none", "none"),
        ("./venv", "{here}/venv"),
        ("venv/", "{here}/venv"),
        ("a/b", "{here}/a/b"),
        (".", "{here}/."),
        ("/data/x y", "/data/x y"),
        ("docker://a/b", "docker://a/b"),
    ],
)
def test_a_word_is_a_name_and_a_slash_a_folder(
    typed: str, meant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert named(typed) == meant.format(here=tmp_path)


def test_what_was_typed_wins_over_what_is_active() -> None:
    values: dict[str, Any] = {"environment": "none"}
    assert not add_active(values, Client("http://127.0.0.1:1"), {"VIRTUAL_ENV": "/v"})
    assert values == {"environment": "none"}


def serve(home: Path, url: str) -> None:
    """As a server of this machine leaves word."""
    home.mkdir()
    (home / "server.json").write_text(json.dumps({"url": url, "pid": os.getpid()}))


@pytest.mark.parametrize("url", ["http://127.0.0.1:7433", "http://10.0.0.7:7433"])
def test_this_machines_server_is_given_what_is_active(home: Path, url: str) -> None:
    serve(home, url)
    for client in (Client(), Client(url + "/", "t"), Client(home=home)):
        values: dict[str, Any] = {}
        assert add_active(values, client, {"VIRTUAL_ENV": "/v"})
        assert values == {"environment": "/v"}


def test_another_machines_server_is_not_given_what_is_active_here(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An address of this machine may be the end of a tunnel."""
    serve(home, "http://127.0.0.1:7433")
    values: dict[str, Any] = {}
    for url in ("http://gpu.lab:7433", "http://127.0.0.1:7434"):
        assert not add_active(values, Client(url, "t"), {"VIRTUAL_ENV": "/v"})
        assert "Not in /v" in capsys.readouterr().err
    assert not add_active(values, Client("http://gpu.lab:7433", "t"), {})
    assert capsys.readouterr().err == ""

    (home / "client.toml").write_text('url = "http://127.0.0.1:9"\n')
    assert not add_active(values, Client(), {"VIRTUAL_ENV": "/v"})
    assert values == {}
