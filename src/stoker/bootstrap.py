"""Puts the parts together and runs the server. The only place that knows every part.

One asyncio process: API → flow → scheduler; store; engines. Ending it, kindly or not, leaves the
runner and the supervisors at work; the next start knows their tasks again.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import json
import logging
import os
import pwd
import secrets
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import uvloop
from msgspec import structs
from typing_extensions import override

from stoker import __version__
from stoker.access.first import let_first_admin_in
from stoker.access.tokens import Identify, of_book, one_person, with_own
from stoker.api.app import create_app
from stoker.api.serve import Server, listen
from stoker.api.tls import Certificate
from stoker.config import Settings, names_in, split_address
from stoker.domain.errors import AppError, StoreError
from stoker.domain.rules import LAB, Rules
from stoker.engines.fleet.engine import FleetEngine
from stoker.engines.fleet.link import Transport
from stoker.engines.fleet.local import LocalRunner, RootRunner
from stoker.flow import loop
from stoker.flow.context import Flow
from stoker.flow.notify import Notices
from stoker.flow.obey import obey, retention_of
from stoker.flow.recover import recover
from stoker.journal import Journal
from stoker.lab.book import Book
from stoker.lab.channels import Channels
from stoker.lab.policy import policy_of
from stoker.lab.seal import Seal
from stoker.notices.send import AppriseSender
from stoker.runner import build, killpoint
from stoker.runner.filesystem import network_filesystem
from stoker.scheduler.policy import Order
from stoker.store.logs import LogFolder
from stoker.store.pending import is_pending
from stoker.store.recorder import SqlStore, open_store
from stoker.store.standby import take_over
from stoker.text import locale_language

log = logging.getLogger("stoker")

SWITCH_S = 0.0005
"""How long a busy thread may keep the interpreter: beside a busy loop a commit otherwise waits."""
FIRST_NODE_S = 3.0
ADDRESS_FREE_S = 10.0
"""How long the socket of a server that is gone may be in the way."""
LOCK = "stoker.db.lock"
ROOTS_MODE = 0o1770
"""Of a state folder that root has prepared for our account: we write, and cannot remove root's."""
SEALS = "secret.key"
"""Opens what is sealed in the records. In no backup: whoever has both could read it."""
SERVER_LOG = "server.log"
"""Where `up --detach` lets standard error go."""
COLLECT = (20_000, 20, 50)
"""Waiting tasks are many small objects that form no cycles: looking at them often is wasted."""


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)


def serve(
    settings: Settings,
    *,
    announce: Callable[[str, Flow], None],
    stand_by: Callable[[StoreError], None] | None = None,
) -> int:
    """Run until SIGINT or SIGTERM. Raises AppError for a start that is refused.

    With `stand_by` another server of these records is no refusal: that is called with who serves,
    and when it is gone this one takes over.
    """
    if os.geteuid() == 0 and not settings.one_person:
        raise RuntimeError("a lab's server has no privilege: cli/keeper.py starts it for root")
    _prepare_home(settings.home)
    journal = _set_up_logging(settings.log_level, settings.home)
    sys.setswitchinterval(SWITCH_S)
    killpoint.arm(os.environ.get("STOKER_KILL_POINTS", ""))
    try:
        store, listener = _open(settings) if stand_by is None else _take_over(settings, stand_by)
    except _WaitEnded:
        return 0
    try:
        if is_pending(settings.home):  # a restore died meanwhile: these are half the old records
            raise StoreError("restore_pending")
        return uvloop.run(_serve(settings, store, listener, announce, journal))
    finally:
        store.close()


def _open(settings: Settings) -> tuple[SqlStore, socket.socket]:
    listener = _listen(settings.listen)
    try:
        return open_store(_records(settings), lock=settings.home / LOCK), listener
    except BaseException:
        listener.close()
        raise


def _take_over(
    settings: Settings, tell: Callable[[StoreError], None]
) -> tuple[SqlStore, socket.socket]:
    """Records first: the address usually is that of the server before us."""
    with _ended_by_sigterm():
        store = take_over(_records(settings), lock=settings.home / LOCK, tell=tell)
    try:
        _refuse_other_spool(settings, store)
        return store, _listen(settings.listen, ADDRESS_FREE_S)
    except BaseException:
        store.close()
        raise


def _refuse_other_spool(settings: Settings, store: SqlStore) -> None:
    """What runs on this node under another state folder's spool would be taken for left over, and
    ended. A person may want that (`up`); nobody looks when a standby takes over."""
    try:
        ours = (settings.home / "spool" / "spool.id").read_text().strip()
    except FileNotFoundError:
        ours = ""
    attempts = [attempt for _, attempt in asyncio.run(store.live())]
    count = sum(
        attempt.allocation.node == settings.node_name and attempt.incarnation.spool_id != ours
        for attempt in attempts
    )
    if count:
        raise StoreError("other_spool", count=count, node=settings.node_name)


def _records(settings: Settings) -> str | Path:
    return settings.database or settings.home / "stoker.db"


class _WaitEnded(BaseException):
    """Raised by a signal, wherever the wait is."""


@contextlib.contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    def end(_number: int, _frame: object) -> None:
        raise _WaitEnded

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


async def _serve(
    settings: Settings,
    store: SqlStore,
    listener: socket.socket,
    announce: Callable[[str, Flow], None],
    journal: Journal,
) -> int:
    home = settings.home
    certificate = _certificate(settings)
    has_root = is_roots(home)
    engine = FleetEngine({settings.node_name: _runner(settings, has_root)})
    book = await _book(settings, store)
    flow = Flow(
        store=store,
        engine=engine,
        logs=LogFolder(home / "logs"),
        clock=SystemClock(),
        new_attempt=lambda: secrets.token_hex(16),
        book=book,
        policy=policy_of(book),
        retention=retention_of(book),
        become_owners=has_root,
    )
    obey(flow)
    me = pwd.getpwuid(os.getuid()).pw_name
    if not settings.one_person:
        flow.shared_account = "" if has_root else me
        await let_first_admin_in(home, book, flow.clock, "" if has_root else me)
    _end_when_outdated(store, flow)
    await recover(flow)
    notices = _notices(flow, home)
    await engine.start(flow.epoch)
    turning = asyncio.create_task(loop.run(flow), name="loop")
    await _first_node(flow, turning)
    host_names = (*names_in(settings.host_names), *(certificate.names if certificate else ()))
    url = _url(listener, host_names if certificate else None)
    readers = store.readers
    flow.news.publish(readers.last_seq())
    app = create_app(
        flow=flow,
        readers=readers,
        identify=_identify(settings, flow, "root" if has_root else me),
        notices=notices,
        version=__version__,
        home=str(home),
        listen_host=split_address(settings.listen)[0],
        host_names=host_names,
        plain_http=settings.plain_http,
        journal=journal,
    )
    server = SignalledServer(app, certificate.context if certificate else None)
    watching = asyncio.create_task(certificate.watch()) if certificate else None
    turning.add_done_callback(lambda _: server.ask_to_exit())
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT)
    _write_server_file(home, url, _mode(settings, has_root))
    announce(url, flow)
    try:
        await server.serve(sockets=[listener])
    finally:
        (home / "server.json").unlink(missing_ok=True)
        if watching is not None:
            watching.cancel()
        notices.close()
        await _close(flow, engine, turning)
    return 1 if flow.outdated else 0


async def _book(settings: Settings, store: SqlStore) -> Book:
    """What the lab has decided; where it has not, what the settings say."""
    built_in = Rules() if settings.one_person else LAB
    defaults = structs.replace(
        built_in,
        policy=cast("Order", settings.policy),
        gpu_slots=settings.gpu_slots,
        keep_days=settings.keep_days,
        keep_tasks=settings.keep_tasks,
    )
    book = Book(store, defaults, built_in, queues=settings.queues)
    await book.load()
    return book


def _notices(flow: Flow, home: Path) -> Notices:
    """In the language of whoever starts the server, for people who have not said theirs."""
    notices = Notices(
        flow,
        Channels(flow.book, Seal(home / SEALS)),
        AppriseSender(),
        language=locale_language(os.environ),
    )
    flow.listeners.append(notices.hear)
    return notices


def _end_when_outdated(store: SqlStore, flow: Flow) -> None:
    """Once the records have gone on without us, nothing may be ordered any more."""
    current = asyncio.get_running_loop()

    def end() -> None:
        flow.outdated = True
        flow.wake.set()

    def tell() -> None:  # in the writer's thread
        with contextlib.suppress(RuntimeError):  # it ends already
            current.call_soon_threadsafe(end)

    store.when_outdated(tell)


async def _close(flow: Flow, engine: FleetEngine, turning: asyncio.Task[None]) -> None:
    turning.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await turning
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(flow.drain(), 2)
    await engine.close()


class SignalledServer(Server):
    """Ends at SIGINT and SIGTERM without raising them again."""

    @override
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        current = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            current.add_signal_handler(number, self.ask_to_exit)
        try:
            yield
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                current.remove_signal_handler(number)


async def _first_node(flow: Flow, turning: asyncio.Task[None]) -> None:
    """Give this machine a moment to introduce itself, so that the first submit can be judged."""
    deadline = asyncio.get_running_loop().time() + FIRST_NODE_S
    while not flow.view.rooms and not turning.done():
        if asyncio.get_running_loop().time() > deadline:
            log.warning("event=no_node_yet hint=see %s", "runner.log in the state folder")
            return
        await asyncio.sleep(0.01)


def is_roots(home: Path) -> bool:
    """Whether root has prepared this folder for us, and keeps a runner of its own in it."""
    status = home.stat()
    return os.geteuid() != 0 and status.st_uid == 0 and status.st_mode & 0o7777 == ROOTS_MODE


def _runner(settings: Settings, has_root: bool) -> Transport:
    if has_root:
        return RootRunner(
            spool=settings.home / "spool",
            build=build.build_id(),
            simulate_gpus=settings.simulate_gpus,
        )
    folder = settings.home / "runner"
    folder.mkdir(mode=0o700, exist_ok=True)
    return LocalRunner(
        spool=settings.home / "spool",
        program=build.build(folder),
        build=build.build_id(),
        node=settings.node_name,
        simulate_gpus=settings.simulate_gpus,
        environ=os.environ,
    )


def _prepare_home(home: Path) -> None:
    """A folder of our own on a local disk."""
    kind = network_filesystem(str(home))
    if kind:
        raise StoreError("network_disk", home=str(home), kind=kind)
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = home.stat()
    except OSError as error:
        raise AppError("home_unusable", path=str(home), why=error.strerror) from error
    if is_roots(home):
        return
    if status.st_uid != os.getuid():
        raise AppError("home_not_yours", path=str(home))
    if status.st_mode & 0o077:
        home.chmod(0o700)


def _identify(settings: Settings, flow: Flow, name: str) -> Identify:
    token = _token(settings.home)
    if settings.one_person:
        return one_person(token, name, flow.book)
    return with_own(token, name, flow.book, of_book(flow.book, flow.clock))


def _token(home: Path) -> str:
    """The token of whom the folder belongs to: made at the first start, readable by nobody else."""
    path = home / "token"
    with contextlib.suppress(FileExistsError):
        beside = home / f".token-{os.getpid()}"
        with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(f"stk_{secrets.token_urlsafe(32)}\n")
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(beside, path)
        finally:
            beside.unlink()
    if path.stat().st_mode & 0o077:
        raise AppError("token_not_private", path=str(path))
    return path.read_text().strip()


def _listen(address: str, patience_s: float = 0.0) -> socket.socket:
    deadline = time.monotonic() + patience_s
    is_said = False
    while True:
        try:
            return listen(*split_address(address))
        except OSError as error:
            if error.errno != errno.EADDRINUSE or time.monotonic() >= deadline:
                raise AppError(
                    "cannot_listen", field="listen", address=address, why=error.strerror
                ) from error
        if not is_said:
            is_said = True
            log.warning("event=address_taken address=%s", address)
        time.sleep(0.05)


def _certificate(settings: Settings) -> Certificate | None:
    if not settings.tls_cert:
        return None
    return Certificate(Path(settings.tls_cert), Path(settings.tls_key))


def _url(listener: socket.socket, tls_names: Sequence[str] | None = None) -> str:
    """By TLS it must be a name that the certificate is good for."""
    host, port = listener.getsockname()[:2]
    if tls_names is not None:
        return f"https://{tls_names[0] if tls_names else 'localhost'}:{port}"
    if host in ("0.0.0.0", "::"):  # noqa: S104 - how this machine reaches itself
        host = "127.0.0.1" if host == "0.0.0.0" else "::1"  # noqa: S104
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _mode(settings: Settings, has_root: bool) -> str:
    if settings.one_person:
        return "one_person"
    return "lab" if has_root else "lab_no_root"


def _write_server_file(home: Path, url: str, mode: str) -> None:
    facts = {
        "url": url,
        "pid": os.getpid(),
        "started_at": datetime.now(UTC).isoformat(),
        "version": __version__,
        "mode": mode,
    }
    beside = home / ".server.json"
    with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(facts, file)
    beside.rename(home / "server.json")


def _set_up_logging(level: str, home: Path) -> Journal:
    # Looked up for every line, and not in ours.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    journal = Journal(file=home / SERVER_LOG)
    logging.basicConfig(level=level.upper(), handlers=[journal])
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    logging.getLogger("alembic").setLevel(logging.WARNING)
    return journal
