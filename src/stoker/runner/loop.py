"""The runner's loop: connections, notices from supervisors, timers. Never blocks.

Facts go to every connection that greeted with the highest epoch (a reconnect overlaps the dead old
one). Threads hand their findings in through a queue and a pipe. Losing this process at any moment
loses nothing: supervisors go on, and the next runner reads the spool.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import queue
import selectors
import socket
import struct
import time
from typing import Any, Callable, Dict, List, Optional, Union

from . import forker, protocol
from .calldesk import KEY as CALL_KEY
from .calldesk import CallDesk
from .cgroup import Cgroups
from .ender import Ender
from .facts import Facts
from .layout import NOTICES, SOCKET, socket_path, split_key
from .logdesk import LogDesk
from .note import note
from .orders import Orders
from .protocol import (
    Answer,
    Call,
    Extend,
    Forget,
    Greeting,
    Hello,
    Launch,
    ListParts,
    LogData,
    ReadLog,
    Recall,
    Refused,
    Sample,
    Seen,
    Stop,
    Sweep,
    Swept,
    part_key,
)
from .recall import recall
from .record import Record
from .senses import Equipment, Senses, unanswered
from .spool import Spool
from .stream import Stream
from .vigil import Vigil

_RESCAN_S = 30.0
_SOON_S = 0.2
_TICK_S = 1.0
_PROBE_S = 10.0
_OVERFLOW = 10
"""The kernel's usual queue of datagrams: after that many at once some may have been dropped."""


class SpoolGone(Exception):
    """The folder was deleted: a new runner makes a new one, which is another incarnation."""


class ForkerGone(Exception):
    """Nothing could be launched any more."""


class Loop:
    """One runner, from its sockets on."""

    def __init__(
        self,
        *,
        spool: Spool,
        cgroups: Cgroups,
        forker_pid: int,
        link: socket.socket,
        simulate_gpus: int,
        hello: Hello,
        server_uid: Optional[int] = None,
    ) -> None:
        self._spool = spool
        self._server_uid = server_uid
        """The one account beside ours that may connect."""
        self._cgroups = cgroups
        self._hello = hello
        self._selector = selectors.DefaultSelector()
        self._connections: List[_Connection] = []
        self._equipment: Optional[Equipment] = None
        self._sample = b""
        """The latest, as it travels."""
        self._begun = time.monotonic()
        self._rescan_at = self._begun
        self._check_at = self._begun
        self._rescan_took = 0.0
        self._sweeps: Dict[str, List[_Connection]] = {}
        self._inbox: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._wake_reader, self._wake_writer = os.pipe()
        os.set_blocking(self._wake_writer, False)
        os.set_blocking(self._wake_reader, False)
        self._forker = Stream(link, self._selector, self._on_forker, self._on_forker_gone)
        self._vigil = Vigil(forker_pid, self._selector, self._on_death)
        self._ender = Ender(cgroups, forker_pid, self._on_ended)
        self._facts = Facts(spool, self._end)
        self._desk = LogDesk(spool, self._run_errand)
        self._calls = CallDesk(self._run_call)
        self._orders = Orders(spool, self._facts, self._hand_over, self._tell)
        self._senses = Senses(
            simulate_gpus, spool.path, lambda: dict(self._facts.part_of_pid), self._on_sensed
        )

    def run(self) -> None:
        """Until something ends us. Raises SpoolGone or ForkerGone."""
        self._notices = _bind(self._spool.dir_fd, NOTICES, socket.SOCK_DGRAM)
        self._listener = _bind(self._spool.dir_fd, SOCKET, socket.SOCK_STREAM, self._server_uid)
        self._selector.register(self._notices, selectors.EVENT_READ, self._on_notices)
        self._selector.register(self._listener, selectors.EVENT_READ, self._on_connect)
        self._selector.register(self._wake_reader, selectors.EVENT_READ, self._on_wake)
        self._ender.start()
        self._senses.start()
        self._rescan()
        while True:
            now = time.monotonic()
            wait_s = max(0.0, min(self._rescan_at - now, _TICK_S))
            for key, mask in self._selector.select(wait_s):
                key.data(mask)
            self._tick(time.monotonic())

    # ---- timers

    def _tick(self, now: float) -> None:
        if now >= self._rescan_at:
            try:
                self._rescan()
            except OSError as error:  # no descriptor left, say
                note(f"cannot read the spool: {error}")
                self._rescan_at = now + _TICK_S
        if now < self._check_at:
            return
        self._check_at = now + _TICK_S
        if self._spool.is_gone():
            raise SpoolGone
        self._desk.give_up(now)
        self._calls.give_up(now)
        if self._equipment is None and now - self._begun >= _PROBE_S:
            self._equip(unanswered(_PROBE_S))

    def _rescan(self) -> None:
        """Read every record and send the whole list."""
        if self._spool.is_gone():
            raise SpoolGone
        begun = time.monotonic()
        self._spool.store_epoch()
        raw = protocol.line(self._facts.all())
        for connection in self._listeners():
            connection.stream.send(raw)
        for key, supervisor in self._facts.supervisors.items():
            self._vigil.keep(key, supervisor)
        for key in self._cgroups.names():
            if not self._spool.has_record(key):
                self._cgroups.open(key).remove()  # refused by the kernel while it is in use
        ended = time.monotonic()
        self._rescan_took = ended - begun
        self._rescan_at = ended + _RESCAN_S

    def _rescan_soon(self, after_s: float = _SOON_S) -> None:
        """Bounded: rescans of a large spool must not crowd out everything else."""
        wait_s = max(after_s, 5 * self._rescan_took)
        self._rescan_at = min(self._rescan_at, time.monotonic() + wait_s)

    # ---- connections

    def _on_connect(self, _mask: int) -> None:
        try:
            sock, _ = self._listener.accept()
        except OSError:
            return
        _, uid, _ = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        if uid not in (0, os.geteuid(), self._server_uid):
            note(f"refused a connection of uid {uid}")
            sock.close()
            return
        self._connections.append(_Connection(self, sock, self._selector))

    def on_line(self, connection: _Connection, raw: bytes) -> None:
        """One line of a connection. What is not a message ends the connection."""
        try:
            self._serve(connection, protocol.read(raw), raw)
        except (ValueError, TypeError, AttributeError, KeyError) as error:
            note(f"dropped a connection: {error!r}")
            connection.stream.close()
        except OSError as error:
            note(f"an order failed: {error}")  # the server sends it again

    def on_close(self, connection: _Connection) -> None:
        """A connection is gone."""
        self._connections.remove(connection)

    def _serve(self, connection: _Connection, message: Any, raw: bytes) -> None:
        if isinstance(message, (Launch, Stop, Extend, Forget)):
            refused = self._orders.carry_out(message, raw)
            if refused is not None:
                connection.send(refused)
        elif isinstance(message, Greeting):
            connection.epoch = message.epoch
            self._spool.raise_epoch(message.epoch)
            self._greet(connection)
        elif isinstance(message, (ListParts, Recall)):
            self._tell_all(connection, message)
        elif isinstance(message, Sweep):
            self._sweep(connection, message)
        else:
            self._inquire(connection, message)

    def _inquire(self, connection: _Connection, message: Any) -> None:
        """Questions, and the answers of those that were sent to find out."""
        if isinstance(message, ReadLog):
            self._desk.ask(message, connection.send)
        elif isinstance(message, LogData):
            self._desk.answer(message)
        elif isinstance(message, Call):
            self._calls.ask(message, connection.send)
        elif isinstance(message, Answer):
            self._calls.answer(message)
        else:
            raise ValueError(f"not for a runner: {type(message).__name__}")

    def _greet(self, connection: _Connection) -> None:
        """Say hello, then everything we know; held back until the probe has answered."""
        if self._equipment is None or connection.epoch is None:
            return
        connection.is_greeted = True
        connection.send(self._complete_hello(self._equipment))
        self._rescan()
        connection.stream.offer(self._sample)

    def _tell_all(self, connection: _Connection, asked: Union[ListParts, Recall]) -> None:
        """What there is now, or also what there was."""
        if not self._spool.raise_epoch(asked.epoch):
            return
        if isinstance(asked, ListParts):
            self._rescan()
        else:
            connection.send(recall(self._spool, self._facts, asked.above))

    def _complete_hello(self, equipment: Equipment) -> Hello:
        return dataclasses.replace(
            self._hello,
            epoch=self._spool.epoch,
            highest=self._spool.highest,
            **equipment.__dict__,
        )

    def _listeners(self) -> List[_Connection]:
        epoch = self._spool.epoch
        return [one for one in self._connections if one.is_greeted and one.epoch == epoch]

    def _tell(self, seen: Seen) -> None:
        raw = protocol.line(seen)
        for connection in self._listeners():
            connection.stream.send(raw)

    # ---- notices

    def _on_notices(self, _mask: int) -> None:
        """Supervisors say that something changed; the records say what."""
        keys: Dict[str, None] = {}
        drained = 0
        with contextlib.suppress(BlockingIOError):
            while drained < 1000:
                keys[self._notices.recv(256).decode("ascii", "replace")] = None
                drained += 1
        for key in keys:
            if split_key(key):
                self._look(key)
        if drained >= _OVERFLOW:
            self._rescan_soon()

    def _look(self, key: str) -> None:
        try:
            seen = self._facts.one(key)
        except OSError as error:
            note(f"{key}: cannot be read: {error}")
            self._rescan_soon(_TICK_S)
            return
        if seen is not None:
            self._tell(seen)

    # ---- forker, ender, senses

    def _hand_over(self, key: str, raw: bytes) -> None:
        self._forker.send(b"%s %s %s\n" % (forker.LAUNCH, key.encode("ascii"), raw))

    def _run_errand(self, key: str, raw: bytes) -> None:
        self._forker.send(b"%s %s %s\n" % (forker.READ, key.encode("ascii"), raw))

    def _run_call(self, key: str, raw: bytes) -> None:
        self._forker.send(b"%s %s %s\n" % (forker.CALL, key.encode("ascii"), raw))

    def _on_forker(self, line: bytes) -> None:
        """`died <key>`: a supervisor ended out of order, or a call is over."""
        key = line.split(b" ", 1)[1].decode("ascii")
        if key.startswith(CALL_KEY):
            self._calls.ended(key)
        else:
            self._on_death(key)

    def _on_death(self, key: str) -> None:
        self._look(key)
        self._rescan_soon(1.0)  # its child may have held the lock for a moment

    def _on_forker_gone(self) -> None:
        raise ForkerGone

    def _end(self, record: Record) -> None:
        self._ender.end(record.key, record.main, record.supervisor)

    def _on_ended(self, key: str, left: int, why: str) -> None:
        """In the ender's thread."""
        self._post(lambda: self._ended(key, left, why))

    def _ended(self, key: str, left: int, why: str) -> None:
        place = split_key(key)
        asking = self._sweeps.pop(key, [])
        for connection in asking:
            if place:
                connection.send(Swept(place[0], place[1], left))
        if left:
            self._facts.is_stuck(key, why)
        else:
            self._facts.nothing_left(key)
        self._look(key)

    def _on_sensed(self, found: Any) -> None:
        """In the thread of the senses."""
        self._post(lambda: self._sensed(found))

    def _sensed(self, found: Any) -> None:
        if isinstance(found, Equipment):
            self._equip(found)
        elif isinstance(found, Sample):
            self._sample = protocol.line(found)
            for connection in self._listeners():
                connection.stream.offer(self._sample)

    def _equip(self, equipment: Equipment) -> None:
        if self._equipment is not None:
            # It answers after all: who was told otherwise asks again.
            for connection in list(self._connections):
                connection.stream.close()
        self._equipment = equipment
        for connection in list(self._connections):
            self._greet(connection)

    def _post(self, act: Callable[[], None]) -> None:
        self._inbox.put(act)
        with contextlib.suppress(BlockingIOError):  # it is full: somebody has woken the loop
            os.write(self._wake_writer, b".")

    def _on_wake(self, _mask: int) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake_reader, 4096)
        with contextlib.suppress(queue.Empty):
            while True:
                self._inbox.get_nowait()()

    # ---- sweeps

    def _sweep(self, connection: _Connection, order: Sweep) -> None:
        key = part_key(order.attempt, order.rank)
        if split_key(key) is None:
            raise ValueError(f"not a part: {key!r}")
        if not self._spool.raise_epoch(order.epoch):
            connection.send(Refused(order.attempt, order.rank, 0, "epoch"))
            return
        self._sweeps.setdefault(key, []).append(connection)
        self._ender.sweep(key)


class _Connection:
    """A server's connection (or a log reader's, for one line)."""

    def __init__(self, loop: Loop, sock: socket.socket, selector: selectors.BaseSelector) -> None:
        self.epoch: Optional[int] = None
        self.is_greeted = False
        self.stream = Stream(
            sock,
            selector,
            lambda raw: loop.on_line(self, raw),
            lambda: loop.on_close(self),
        )

    def send(self, message: Any) -> None:
        """One message; nothing happens on a connection that is gone."""
        self.stream.send(protocol.line(message))


def _bind(dir_fd: int, name: str, kind: int, owner: Optional[int] = None) -> socket.socket:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=dir_fd)
    sock = socket.socket(socket.AF_UNIX, kind)
    sock.bind(socket_path(dir_fd, name))
    os.chmod(name, 0o600, dir_fd=dir_fd)
    if owner is not None:
        os.chown(name, owner, -1, dir_fd=dir_fd, follow_symlinks=False)
    sock.setblocking(False)
    if kind == socket.SOCK_STREAM:
        sock.listen(64)
    return sock
