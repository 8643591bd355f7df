"""`stoker up`: serves this machine, in the foreground or detached.

Ending it (Ctrl-C, `down`, a crash) leaves running tasks alone. A second `up` on the same state
folder says where the first one is and exits 0; any other refusal exits 2. With `--standby` it waits
until the first one is gone, and serves then; a second standby says so and exits 0.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stoker.client import Client, Refused, ServerUnreachable
from stoker.config import Loaded, find_home, load
from stoker.domain.errors import StoreError
from stoker.store.pending import JOURNAL, is_pending
from stoker.wire import NodeView

from .alive import server_pid, standby_pid
from .command import command as declare
from .command import json_option, option
from .options import Whole
from .say import language, tell, warn, words

if TYPE_CHECKING:
    from stoker.flow.context import Flow

READY_S = 60.0
ALREADY_S = 10.0
POLL_S = 0.05
MOST_LOG_BYTES = 10 << 20
LAST_LINES = 15
FIRST_CODE = "first-code"


@declare("up")
@option("--listen", metavar="HOST:PORT")
@option("--simulate-gpus", type=Whole())
@option("--one-person", is_flag=True, default=None)
@option("--detach", is_flag=True)
@option("--standby", is_flag=True)
@json_option
def command(
    listen: str | None,
    simulate_gpus: int | None,
    one_person: bool | None,
    *,
    detach: bool,
    standby: bool,
    as_json: bool,
) -> int:
    flags = _given(listen=listen, simulate_gpus=simulate_gpus, one_person=one_person)
    _finish_restore()
    loaded = load(os.environ, flags)
    home = loaded.settings.home
    if _is_awaited(home, as_json) if standby else _is_served(home, as_json):
        return 0
    has_root = os.geteuid() == 0
    if has_root and loaded.settings.one_person:
        warn("up.root")
    if loaded.sources["home"].startswith("default ("):
        warn("up.home_moved", home=str(home))
    if has_root and not loaded.settings.one_person:
        return _up_by_root(loaded, flags, detach, standby, as_json)
    if detach:
        return _detached(loaded, flags, standby, as_json)
    return _serve(loaded, standby, as_json)


def _up_by_root(
    loaded: Loaded, flags: dict[str, Any], detach: bool, standby: bool, as_json: bool
) -> int:
    """For everybody, by a server that is not root."""
    from . import keeper

    if detach:
        keeper.prepare(loaded.settings)  # what is wrong is said here, not in a log
        return _detached(loaded, flags, standby, as_json)
    typed = _as_typed(flags | _given(standby=standby or None, json=as_json or None))
    return keeper.keep(loaded.settings, typed)


def _finish_restore() -> None:
    """One that was killed after it was decided. Settings may be among what it brings."""
    home = find_home(os.environ)
    if is_pending(home):
        from stoker.store.restore import finish

        if os.geteuid() == 0:
            from .keeper import close_to_server

            if (home / JOURNAL).lstat().st_uid != 0:
                return  # the server's own affair: root takes no orders from its account
            close_to_server(home)
        finish(home)


def _serve(loaded: Loaded, standby: bool, as_json: bool) -> int:
    from stoker import bootstrap
    from stoker.flow import overview

    gc.set_threshold(*_USUAL_COLLECTION)
    home = loaded.settings.home
    ending = "up.wait_ended" if standby else "up.ended"

    def announce(url: str, flow: Flow) -> None:
        nonlocal ending
        ending = "up.ended"
        _welcome(url, home, overview.nodes(flow), as_json, "up.ends")

    def stand_by(error: StoreError) -> None:
        _say_waits("up.waits", home, os.getpid(), error.values, as_json)

    try:
        code = bootstrap.serve(
            loaded.settings, announce=announce, stand_by=stand_by if standby else None
        )
    except StoreError as error:
        # somebody else may have been a moment faster
        if error.code == "already_served" and _is_served(home, as_json):
            return 0
        if error.code == "already_waits" and _is_awaited(home, as_json):
            return 0
        raise
    if not as_json:
        tell(ending)
    return code


_USUAL_COLLECTION = (700, 10, 10)
"""Python's own thresholds; a short command runs with others."""


def _detached(loaded: Loaded, flags: dict[str, Any], standby: bool, as_json: bool) -> int:
    import subprocess

    home = loaded.settings.home
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    log = home / "server.log"
    if server_pid(home) is None and log.exists() and log.stat().st_size > MOST_LOG_BYTES:
        log.replace(home / "server.log.1")
    before = log.stat().st_size if log.exists() else 0
    flags_of_log = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
    with open(os.open(log, flags_of_log, 0o600), "ab") as out:
        child = subprocess.Popen(  # noqa: S603 - ourselves, no shell
            [
                sys.executable,
                "-m",
                "stoker",
                "up",
                *_as_typed(flags | _given(standby=standby or None)),
            ],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
            cwd="/",
            env=os.environ | {"STOKER_HOME": str(home)},
        )
    deadline = time.monotonic() + READY_S
    while child.poll() is None and time.monotonic() < deadline:
        waiting = standby_pid(home)
        if waiting is not None and _is_of(child.pid, waiting):
            _say_waits("up.waits_detached", home, waiting, {}, as_json)
            return 0
        is_other = standby and not _is_of(child.pid, server_pid(home))
        found = None if is_other else _answering(home)
        if found is not None:
            _welcome(*found, as_json, "up.detached")
            return 0
        time.sleep(POLL_S)
    if child.poll() is None:
        warn("up.silent", seconds=int(READY_S), log=str(log))
    elif child.returncode == 0 and (_is_awaited if standby else _is_served)(home, as_json):
        return 0  # it found another one that was a moment faster
    else:
        warn("up.died", log=str(log))
        _print_last_lines(log, before)
    return 2


def _is_of(child: int, pid: int | None) -> bool:
    """Whether that is the process we started, or the server that it started in turn."""
    from stoker.runner.identity import stat

    found = stat(pid) if pid else None
    return found is not None and child in (pid, found.parent)


def _is_served(home: Path, as_json: bool) -> bool:
    """Whether a server has this folder; it is introduced then. It may just be starting."""
    deadline = time.monotonic() + ALREADY_S
    while (pid := server_pid(home)) is not None:
        found = _answering(home)
        if found is not None:
            _welcome(*found, as_json, "up.already")
            return True
        if time.monotonic() > deadline:
            raise StoreError("already_served", pid=pid)
        time.sleep(POLL_S)
    return False


def _is_awaited(home: Path, as_json: bool) -> bool:
    """Whether a standby waits for this folder; it is introduced then."""
    pid = standby_pid(home)
    if pid is None:
        return False
    _say_waits("up.already_waits", home, pid, {}, as_json)
    return True


def _say_waits(
    key: str, home: Path, standby: int, served: Mapping[str, object], as_json: bool
) -> None:
    """One line: who waits for whom. `served`: what the refusal said, if there was one."""
    pid = server_pid(home)
    url = _url(home) if pid else ""
    if pid in (None, standby):  # of another state folder, or gone this very moment
        who = words("up.who_database" if "database" in served else "up.who_unknown", **served)
    else:
        who = words("up.who_at" if url else "up.who", pid=pid, url=url)
    if as_json:
        import json

        print(json.dumps({"standby": standby, "url": url or None}), flush=True)
        return
    print(words(key, who=who, pid=standby, log=str(home / "server.log")), flush=True)


def _url(home: Path) -> str:
    try:
        with Client(home=home) as client:
            return client.url
    except ServerUnreachable:
        return ""


def _answering(home: Path) -> tuple[str, Path, list[NodeView]] | None:
    """Where the server of this folder answers, once it does."""
    try:
        with Client(home=home, timeout_s=5, language=language()) as client:
            return client.url, home, client.nodes()
    except (ServerUnreachable, Refused):
        return None


def _mode(home: Path) -> str:
    import json

    try:
        return str(json.loads((home / "server.json").read_text())["mode"])
    except (OSError, ValueError, KeyError):
        return "one_person"


def _tell_mode(home: Path) -> None:
    """Who is served, and as whom tasks run."""
    mode = _mode(home)
    if mode == "one_person":
        tell("up.token", path=str(home / "token"))
    elif mode == "lab":
        tell("up.lab")
    else:
        tell("up.lab_no_root", account=home.owner())


def _tell_first_code(path: Path, url: str) -> None:
    """On a terminal only: what is printed elsewhere ends up in log files."""
    try:
        if path.is_symlink():
            return
        name, code = path.read_text("ascii").split()
    except (OSError, ValueError):
        return
    if sys.stdout.isatty():
        tell("up.first_code", name=name, url=url, code=code)
    else:
        tell("up.first_code_file", name=name, path=str(path))


def _welcome(url: str, home: Path, nodes: Sequence[NodeView], as_json: bool, ending: str) -> None:
    code = home / FIRST_CODE
    if as_json:
        import json

        said = {"url": url, "home": str(home), "token_file": str(home / "token")}
        print(json.dumps(said | ({"first_code_file": str(code)} if code.exists() else {})))
        sys.stdout.flush()
        return
    tell("up.serves", url=url)
    tell("up.home", home=str(home))
    _tell_mode(home)
    for node in nodes:
        tell("up.node", node=node.name, gpus=_cards(node))
    _tell_first_code(code, url)
    tell("up.try" if _mode(home) == "one_person" else "up.try_lab")
    print(words(ending), flush=True)


def _cards(node: NodeView) -> str:
    if not node.cards:
        return words("up.no_gpus")
    simulated = sum(card.gpu.simulated for card in node.cards)
    key = "up.gpus_simulated" if simulated else "up.gpus"
    return words(key, count=len(node.cards))


def _given(**flags: Any) -> dict[str, Any]:
    return {key: value for key, value in flags.items() if value is not None}


def _as_typed(flags: dict[str, Any]) -> list[str]:
    typed = []
    for key, value in flags.items():
        flag = "--" + key.replace("_", "-")
        typed += [flag] if value is True else [flag, str(value)]
    return typed


def _print_last_lines(log: Path, begin: int) -> None:
    from .screen import clean

    with open(log, "rb") as file:
        file.seek(begin)
        lines = file.read().decode("utf-8", "replace").splitlines()
    for line in lines[-LAST_LINES:]:
        print(f"  {clean(line)}", file=sys.stderr)
