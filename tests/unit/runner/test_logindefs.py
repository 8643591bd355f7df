"""What a log-in gives an account, from files of a machine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stoker.runner import logindefs
from stoker.runner.account import Account

ANA = Account("ana", 1234, 1234, "/home/ana", "/bin/bash")


@pytest.fixture
def etc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(logindefs, "DEFINITIONS", str(tmp_path / "login.defs"))
    monkeypatch.setattr(logindefs, "ENVIRONMENT", str(tmp_path / "environment"))
    monkeypatch.setattr(logindefs, "LOCALES", (str(tmp_path / "locale"),))
    monkeypatch.setattr(logindefs, "RUNTIME", str(tmp_path / "run"))
    return tmp_path


def test_without_any_file_there_is_a_path_and_nothing_else(etc: Path) -> None:
    found = logindefs.variables(ANA)
    assert list(found) == ["PATH"]
    assert "/usr/bin" in found["PATH"].split(":")
    assert logindefs.umask(0o022) == 0o022


def test_login_defs_say_path_and_umask(etc: Path) -> None:
    (etc / "login.defs").write_text("#ENV_PATH no\nENV_PATH\tPATH=/a:/b\n UMASK 0077 \n")
    assert logindefs.variables(ANA)["PATH"] == "/a:/b"
    assert logindefs.umask(0o022) == 0o077
    (etc / "login.defs").write_text("UMASK eight\n")
    assert logindefs.umask(0o022) == 0o022


def test_the_systems_environment_wins_over_login_defs(etc: Path) -> None:
    (etc / "login.defs").write_text("ENV_PATH PATH=/a\n")
    (etc / "locale").write_text('LANG="de_DE.UTF-8"\nOTHER=x\n')
    (etc / "environment").write_text(
        "# http_proxy=no\nPATH='/c:/d'\nexport http_proxy=http://proxy:1/#x\nnot a line\n9A=b\n"
    )
    assert logindefs.variables(ANA) == {
        "LANG": "de_DE.UTF-8",
        "PATH": "/c:/d",
        "http_proxy": "http://proxy:1/#x",
    }


def test_a_runtime_folder_counts_only_if_it_is_the_accounts(etc: Path) -> None:
    (etc / "run").mkdir()
    (etc / "run" / "1234").mkdir()
    assert "XDG_RUNTIME_DIR" not in logindefs.variables(ANA)
    mine = Account("me", os.getuid(), os.getgid(), "/", "/bin/sh")
    (etc / "run" / str(os.getuid())).mkdir()
    assert logindefs.variables(mine)["XDG_RUNTIME_DIR"] == str(etc / "run" / str(os.getuid()))
