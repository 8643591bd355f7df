"""One supervisor: claims a part, starts its command, waits, ends what is left, records the end.

PROTOCOL 3.3 to 3.6, in that order. It outlives server and runner; nobody tells it anything but by
a signal and the part's `ctl` file. Signals are blocked from before its fork on and taken one by
one with sigtimedwait. Invariants: no command before a claim under a clean bit; no exec before the
child line; no exit line while anything is left.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import resource
import select
import socket
import time
from typing import Any, Dict, Optional, Tuple

from . import command, killpoint, libc, logfile, mark, reason
from .cgroup import Group
from .child import Child
from .identity import Process, start_time
from .layout import CONTROL, LOG, NOTICES, socket_path
from .limit import read as read_limit
from .lines import unpack
from .note import note
from .prepare import Prepared
from .protocol import Exit, Launch
from .readlog import named_files, tail_as_owner
from .record import Journal, abandon, claim
from .setting import Setting
from .watch import Watch

_START_POLL_MS = 50


def supervise(prepared: Prepared, setting: Setting) -> None:
    """Everything, in a process of its own. Returns when it is over or not ours to do."""
    os.setsid()
    libc.become_subreaper()
    libc.set_name(b"stoker-watch")
    try:
        journal = claim(setting.dir_fd, prepared.key, prepared.claim)
    except OSError as error:  # a full disk: nothing began, and the server sends it again
        note(f"{prepared.key}: cannot be claimed: {error}")
        return
    if journal is None:
        return
    if mark.is_set(setting.dir_fd, prepared.launch.number):
        # We were paused before our claim, and the number was used and forgotten meanwhile.
        abandon(setting.dir_fd, prepared.key, journal)
        return
    _Supervisor(prepared, journal, setting).run()


class _Supervisor:
    """A claimed part."""

    def __init__(self, prepared: Prepared, journal: Journal, setting: Setting) -> None:
        self._prepared = prepared
        self._launch = prepared.launch
        self._key = prepared.key
        self._journal = journal
        self._setting = setting
        self._log: Optional[int] = None

    def run(self) -> None:
        order = self._order()
        if order is not None:
            self._finish(Exit(cause=order[0], at=time.time()))
            return
        launch = self._launch
        group = self._setting.cgroups.create(self._key, launch.cpus, launch.memory_mib)
        try:
            self._open_log()
            watch = self._start(group)
        except _NotStarted as refusal:
            self._finish(refusal.end)
            group.remove()
            return
        failure = self._await_exec(watch)
        if failure is None:
            killpoint.reach(killpoint.BEGUN)
            self._tell()
        watch.wait()
        killpoint.reach(killpoint.ENDED)
        self._finish(self._describe(watch, failure, group))
        group.remove()

    def _open_log(self) -> None:
        """Our own log, if a stream goes there. No room for the header is the command's affair."""
        if self._launch.stdout and self._launch.stderr:
            return
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        try:
            self._log = os.open(self._key + LOG, flags, 0o600, dir_fd=self._setting.dir_fd)
        except OSError as error:
            raise _NotStarted("stdout", error, self._launch) from error
        with contextlib.suppress(OSError):
            os.write(self._log, self._prepared.header)

    def _start(self, group: Group) -> Watch:
        """Fork; then the child line; then the byte that lets the child begin."""
        try:
            go_reader, go = os.pipe()
            self._reports, reports = os.pipe()
            pid = group.fork()
        except OSError as error:
            raise _NotStarted("fork", error, self._launch) from error
        if pid == 0:
            # A child that keeps the lock would make a dead supervisor look alive; one that keeps
            # our end of the pipe would never see its end of file.
            os.close(self._journal.fd)
            os.close(go)
            Child(self._prepared, self._setting, group, self._log).run(go_reader, reports)
        killpoint.reach(killpoint.FORKED)
        os.close(go_reader)
        os.close(reports)
        main = Process(pid, start_time(pid))
        self._journal.begin(main, time.time())
        with contextlib.suppress(OSError):  # killed already: the wait will find it
            os.write(go, b"g")
        os.close(go)
        return Watch(
            key=self._key,
            main=main,
            group=group,
            limit_s=self._launch.time_limit_s,
            grace_s=self._launch.grace_s,
            read_order=self._order,
            read_limit=lambda: read_limit(self._setting.dir_fd, self._key),
            report_stuck=self._report_stuck,
            log=self._log,
        )

    def _await_exec(self, watch: Watch) -> Optional[Dict[str, Any]]:
        """None when the command runs (or was ended before it could); else what failed.

        Opening a folder may hang on a dead file server, so orders and limits are served meanwhile.
        """
        said = b""
        poll = select.poll()
        poll.register(self._reports, select.POLLIN)
        while True:
            if not poll.poll(_START_POLL_MS):
                watch.serve(0)
                continue
            data = os.read(self._reports, 65536)
            if not data:
                break
            said += data
        os.close(self._reports)
        return json.loads(said) if said else None

    def _describe(self, watch: Watch, failure: Optional[Dict[str, Any]], group: Group) -> Exit:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        end = Exit(
            cause=watch.cause,
            code=watch.code,
            signal=watch.signal,
            detail=str(round(watch.limit_s)) if watch.cause == "limit" and watch.limit_s else "",
            at=time.time(),
            ran_s=round(watch.ran_s, 3),
            cpu_s=round(usage.ru_utime + usage.ru_stime, 3),
            max_rss_mib=usage.ru_maxrss // 1024,
        )
        if end.code == 0 or (end.cause != "exit" and failure is None):
            return end
        try:
            return self._explained(end, failure, group.oom_kills())
        except Exception as error:
            note(f"{self._key}: no reason found: {error!r}")
            return end

    def _explained(self, end: Exit, failure: Optional[Dict[str, Any]], oom_kills: int) -> Exit:
        launch = self._launch
        if failure is not None:
            if end.cause != "exit":
                return dataclasses.replace(end, code=None)
            error = OSError(failure["errno"], failure["text"], failure["file"] or None)
            head = failure["head"]
            code, detail = reason.explain_start(
                failure["step"], error, launch, None if head is None else head.encode("latin-1")
            )
            return dataclasses.replace(end, cause="refused", code=None, reason=code, detail=detail)
        tail = b"" if self._log is None else logfile.tail(self._log)
        for path in named_files(launch):
            tail = tail_as_owner(path, launch.account, self._setting) + b"\n" + tail
        code, detail = reason.explain_exit(end.code, end.signal, tail, oom_kills, launch)
        return dataclasses.replace(end, reason=code, detail=detail)

    def _finish(self, end: Exit) -> None:
        if self._log is not None:
            with contextlib.suppress(OSError):
                os.write(self._log, logfile.trailer(end, logfile.tail(self._log)))
                logfile.cap(self._log, final=True)
        made = self._prepared.command
        if made is None or made.script is not None:
            command.discard(self._setting.dir_fd, self._key, self._launch.account)
        self._journal.finish(end, self._setting.dir_fd)
        killpoint.reach(killpoint.RECORDED)
        self._tell()

    def _tell(self) -> None:
        """Best effort: a paused runner must not hold us up, and it rescans anyway."""
        with contextlib.suppress(OSError):
            self._setting.notices.sendto(
                self._key.encode("ascii"),
                socket.MSG_DONTWAIT,
                socket_path(self._setting.dir_fd, NOTICES),
            )

    def _report_stuck(self, why: str) -> None:
        with contextlib.suppress(OSError):
            self._journal.note_stuck(why)
        self._tell()

    def _order(self) -> Optional[Tuple[str, float]]:
        """Cause and grace of the order that was left for us; None when there is none."""
        if not os.access(self._key + CONTROL, os.F_OK, dir_fd=self._setting.dir_fd):
            return None  # as nearly always; cheaper than an exception
        try:
            fd = os.open(
                self._key + CONTROL, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._setting.dir_fd
            )
            try:
                facts = unpack(os.read(fd, 4096))
            finally:
                os.close(fd)
        except OSError:
            return None
        if not facts or facts[0].get("number") != self._launch.number:
            return None
        return str(facts[0]["cause"]), float(facts[0]["grace_s"])


class _NotStarted(Exception):
    """The node itself could not do it, before there was a process for the command."""

    def __init__(self, step: str, error: OSError, launch: Launch) -> None:
        super().__init__(step)
        code, detail = reason.explain_start(step, error, launch)
        self.end = Exit(cause="refused", reason=code, detail=detail, at=time.time())
