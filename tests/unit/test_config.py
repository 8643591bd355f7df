"""Where settings come from, and that a wrong one is refused by name."""

from __future__ import annotations

import dataclasses
import re
import socket
import tomllib
from pathlib import Path
from typing import Any

import pytest

from stoker import config
from stoker.config import BadSetting, Settings, load, split_address


def test_the_last_source_wins_and_is_named(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('listen = "127.0.0.1:1"\nsimulate_gpus = 2\n')
    environ = {"STOKER_HOME": str(tmp_path), "STOKER_LISTEN": "127.0.0.1:2"}

    loaded = load(environ, {"listen": "127.0.0.1:3"})

    assert (loaded.settings.listen, loaded.settings.simulate_gpus) == ("127.0.0.1:3", 2)
    assert loaded.sources["listen"] == "flag"
    assert loaded.sources["simulate_gpus"] == "file"
    assert loaded.sources["home"] == "environment"
    assert loaded.sources["log_level"] == "default"
    assert load(environ, {}).sources["listen"] == "environment"


def test_what_the_scheduler_is_told(tmp_path: Path) -> None:
    environ = {"STOKER_HOME": str(tmp_path)}
    usual = load(environ, {}).settings
    assert (usual.policy, usual.gpu_slots) == ("balance", 1)
    for policy in ("balance", "fifo", "fairshare"):
        asked = load(environ | {"STOKER_POLICY": policy, "STOKER_GPU_SLOTS": "4"}, {}).settings
        assert (asked.policy, asked.gpu_slots) == (policy, 4)


def test_this_machine_has_a_name(tmp_path: Path) -> None:
    settings = load({"STOKER_HOME": str(tmp_path)}, {}).settings

    assert settings.node_name == socket.gethostname().split(".")[0]


@pytest.mark.parametrize(
    ("text", "flags", "key", "problem"),
    [
        ("liste = 1\n", {}, "liste", "unknown_setting"),
        ("home = '/x'\n", {}, "home", "unknown_setting"),
        ("listen = 7\n", {}, "listen", "bad_value"),
        ("simulate_gpus = -1\n", {}, "simulate_gpus", "bad_value"),
        ("simulate_gpus = true\n", {}, "simulate_gpus", "bad_value"),
        ("policy = 'chaos'\n", {}, "policy", "bad_value"),
        ("gpu_slots = 0\n", {}, "gpu_slots", "bad_value"),
        ("gpu_slots = 65\n", {}, "gpu_slots", "bad_value"),
        ("log_level = 'loud'\n", {}, "log_level", "bad_value"),
        ("", {"listen": "nowhere"}, "listen", "bad_address"),
        ("", {"simulate_gpus": 5000}, "simulate_gpus", "bad_value"),
    ],
)
def test_a_wrong_setting_is_refused_by_name(
    tmp_path: Path, text: str, flags: dict[str, Any], key: str, problem: str
) -> None:
    (tmp_path / "config.toml").write_text(text)
    with pytest.raises(BadSetting) as caught:
        load({"STOKER_HOME": str(tmp_path)}, flags)

    assert (caught.value.key, caught.value.problem) == (key, problem)


@pytest.mark.parametrize("content", [b"= 1\n", b"\xff\xfe"])
def test_a_broken_file_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "config.toml").write_bytes(content)
    with pytest.raises(BadSetting) as caught:
        load({"STOKER_HOME": str(tmp_path)}, {})

    assert caught.value.problem == "bad_file"


@pytest.mark.parametrize(
    ("listen", "found"),
    [
        ("127.0.0.1:7433", ("127.0.0.1", 7433)),
        ("[::1]:80", ("::1", 80)),
        (":0", ("0.0.0.0", 0)),
        ("lab.example:1", ("lab.example", 1)),
    ],
)
def test_addresses(listen: str, found: tuple[str, int]) -> None:
    assert split_address(listen) == found


@pytest.mark.parametrize("listen", ["", "7433", "x:", "x:70000", "::1:80", "x:-1", "x:８０"])
def test_what_is_no_address(listen: str) -> None:
    with pytest.raises(BadSetting):
        split_address(listen)


def test_a_home_on_a_network_disk_moves_to_a_local_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "network_filesystem", lambda _path: "nfs4")
    monkeypatch.setattr(config, "is_root", lambda: False)

    loaded = load({"XDG_STATE_HOME": "/nfs/home/ana"}, {})

    assert str(loaded.settings.home).startswith("/var/tmp/stoker-")
    assert "network" in loaded.sources["home"]


def test_a_home_that_was_asked_for_is_never_moved(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(config, "network_filesystem", lambda _path: "nfs4")

    assert load({"STOKER_HOME": str(tmp_path)}, {}).settings.home == tmp_path


SECRET = "postgresql://ana:s3cret@db/stoker"


def test_a_database_is_named_by_file_or_environment_and_never_shown(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(f'database = "{SECRET}"\n')
    loaded = load({"STOKER_HOME": str(tmp_path)}, {})
    assert (loaded.settings.database, loaded.sources["database"]) == (SECRET, "file")
    assert "s3cret" not in repr(loaded)
    (field,) = (f for f in dataclasses.fields(config.Settings) if f.name == "database")
    assert config.shown(field, loaded.settings) == "***"
    environ = {"STOKER_HOME": str(tmp_path / "none"), "STOKER_DATABASE": SECRET}
    assert load(environ, {}).settings.database == SECRET
    assert config.shown(field, load({"STOKER_HOME": str(tmp_path / "none")}, {}).settings) == ""


@pytest.mark.parametrize("text", ['database = ["s3cret"]\n', 'database = "s3cret"\n'])
def test_a_wrong_database_is_refused_without_repeating_it(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.toml").write_text(text)

    with pytest.raises(BadSetting) as refused:
        load({"STOKER_HOME": str(tmp_path)}, {})

    assert refused.value.key == "database"
    assert "s3cret" not in repr(refused.value)


def test_the_example_has_every_setting_with_its_default() -> None:
    example = Path(__file__).resolve().parents[2] / "deploy" / "config.toml.example"
    lines = example.read_text("utf-8").splitlines()

    said = tomllib.loads("\n".join(line[1:] for line in lines if re.match(r"#[a-z\[]", line)))

    queues = said.pop("queues")
    assert said == {
        setting.name: setting.default
        for setting in dataclasses.fields(Settings)
        if setting.name not in ("home", "queues")
    }
    assert queues["debug"]["longest_s"] == queues["debug"]["default_limit_s"] == 15 * 60
    assert tomllib.loads("\n".join(lines)) == {}, "as it is it changes nothing"


@pytest.mark.parametrize("value", ["-1", "x", "1.5"])
@pytest.mark.parametrize("key", ["keep_days", "keep_tasks"])
def test_how_long_things_are_kept_is_a_count(key: str, value: str) -> None:
    with pytest.raises(BadSetting) as refused:
        load({"STOKER_HOME": "/tmp/x", f"STOKER_{key.upper()}": value}, {})
    assert refused.value.key == key


@pytest.mark.parametrize("is_root", [True, False])
def test_root_serves_a_lab_unless_told_otherwise(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, is_root: bool
) -> None:
    monkeypatch.setattr(config, "is_root", lambda: is_root)
    environ = {"STOKER_HOME": str(tmp_path)}
    usual = load(environ, {})
    assert usual.settings.one_person is not is_root
    assert usual.sources["one_person"] == ("default (root)" if is_root else "default")
    assert load(environ, {"one_person": True}).settings.one_person
    assert not load(environ | {"STOKER_ONE_PERSON": "0"}, {}).settings.one_person
    where = load({"XDG_STATE_HOME": str(tmp_path)}, {}).settings.home
    assert where == (Path("/var/lib/stoker") if is_root else tmp_path / "stoker")


@pytest.mark.parametrize(
    ("name", "value"), [("server_account", "root"), ("least_uid", "0"), ("least_uid", "-1")]
)
def test_the_server_is_never_root(tmp_path: Path, name: str, value: str) -> None:
    environ = {"STOKER_HOME": str(tmp_path), f"STOKER_{name.upper()}": value}
    with pytest.raises(BadSetting) as refused:
        load(environ, {})
    assert refused.value.key == name


def test_queues_are_tables_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(f"{config.DEBUG_QUEUE}\nnodes = ['a']\n[queues.big]\n")

    loaded = load({"STOKER_HOME": str(tmp_path), "STOKER_QUEUES": "ignored"}, {})

    debug = loaded.settings.queues["debug"]
    assert (debug.name, debug.longest_s, debug.nodes) == ("debug", 900, frozenset({"a"}))
    assert sorted(loaded.settings.queues) == ["big", "debug"]
    assert loaded.sources["queues"] == "file"
    (field,) = (f for f in dataclasses.fields(Settings) if f.name == "queues")
    assert config.shown(field, loaded.settings) == "big, debug"


@pytest.mark.parametrize(
    ("text", "key", "problem"),
    [
        ("queues = 3", "queues", "bad_value"),
        ("[queues]\ndebug = 3", "queues.debug", "bad_value"),
        ("[queues.debug]\nlongest = 900", "queues.debug.longest", "unknown_setting"),
        ("[queues.debug]\nlongest_s = '15m'", "queues.debug.longest_s", "bad_value"),
        ("[queues.debug]\nmost_cards = 0", "queues.debug.most_cards", "bad_value"),
        ("[queues.debug]\nengine = 'slurm'", "queues.debug.engine", "bad_value"),
        ("[queues.debug]\nteams = ['']", "queues.debug.teams", "bad_value"),
        ("[queues.'a b']", "queues.a b.name", "bad_value"),
        (
            "[queues.debug]\nlongest_s = 60\ndefault_limit_s = 61",
            "queues.debug.default_limit_s",
            "bad_value",
        ),
    ],
)
def test_a_wrong_queue_is_refused_by_name(
    tmp_path: Path, text: str, key: str, problem: str
) -> None:
    (tmp_path / "config.toml").write_text(text)

    with pytest.raises(BadSetting) as refused:
        load({"STOKER_HOME": str(tmp_path)}, {})

    assert (refused.value.key, refused.value.problem) == (key, problem)
