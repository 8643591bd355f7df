"""The Python SDK and the CLI's way to a server: synchronous, standard library and msgspec only.

With no configuration it finds the server of this account (find.py). A request is sent at most once
unless it is a GET: a submit is never repeated on a guess. Streams reconnect by themselves, resume
where they were, and give up after `patience_s` without a server. One Client belongs to one thread.

    with Client() as client:
        task = client.submit(TaskSpec(command=("python", "train.py"), workdir="/data", gpus=2))
        print(client.wait(task.id).outcome)
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple, overload
from urllib.parse import quote

from stoker import wire
from stoker.domain.task import TaskSpec, fields

from .errors import Refused, ServerUnreachable
from .lab import Lab
from .notices import Notices
from .people import People
from .queues import QueueVerbs

if TYPE_CHECKING:
    from datetime import datetime

    from stoker.wire_share import ShareView

    from .export import Export

__all__ = ["Client", "LogPart", "Refused", "ServerUnreachable", "StreamReset", "TaskSpec"]

CHUNK_BYTES = 1 << 18
"""Of output in one request."""


class LogPart(NamedTuple):
    """Bytes of output from `offset` (above the one asked for when the middle was not kept)."""

    offset: int
    data: bytes
    size: int
    ended: bool
    """The attempt is over: `size` will not grow."""

    @property
    def next(self) -> int:
        """Where the following part begins."""
        return self.offset + len(self.data)

    @property
    def text(self) -> str:
        """The bytes as text; what is not UTF-8 is replaced."""
        return self.data.decode("utf-8", "replace")


class StreamReset(NamedTuple):
    """Events were missed, or none was asked for: look at everything, then go on after `seq`."""

    seq: int


class Client(People, Notices, QueueVerbs, Lab):
    """A way to one server; a context manager. It belongs to one thread.

    url, token: the server and its token. Without them STOKER_URL and STOKER_TOKEN are asked, then
    `client.toml` in the state folder, then the server that serves that folder on this machine.
    home: the state folder of a server on this machine; nothing else is asked then.
    language: of the sentences in answers, "en" or "zh"; without it the terminal's.
    timeout_s: how long one request may take.
    patience_s: how long `wait`, `events` and `follow_log` bear it that no server answers.
    ca: a file with the authority that the certificate of an https server is checked against. Without
    it STOKER_CA, then `ca` in `client.toml`, then the system's authorities.

    Every call raises Refused when the server says no, and ServerUnreachable when none answers. A
    call that is interrupted (Ctrl-C) leaves the client usable; what was sent before may have been
    carried out.
    """

    # ---- tasks

    def submit(self, spec: TaskSpec, *, said: Collection[str] = ()) -> wire.Created:
        """Hand over one task; it is recorded when this returns, and survives any crash.

        A field that is as declared is taken from your settings, if it is there; `said` names
        fields that count as they are.
        """
        return self._post("/tasks", _said(spec, said), wire.Created)

    def submit_many(self, specs: Iterable[TaskSpec]) -> tuple[str, ...]:
        """Hand over many, all of them or none; their ids in the same order."""
        return self._post(
            "/tasks/batch", {"tasks": [_said(spec) for spec in specs]}, wire.BatchCreated
        ).ids

    def preview(self, spec: TaskSpec, *, said: Collection[str] = ()) -> wire.WhyView:
        """What would happen to it if it were submitted now. Nothing is recorded."""
        return self._post("/tasks/preview", _said(spec, said), wire.WhyView)

    def task(self, id: str, *, waits: bool = True) -> wire.TaskDetail:
        """All about one task. Without `waits` not why it waits, which takes the server a while."""
        return self._get(_path(id), wire.TaskDetail, {"waits": None if waits else "false"})

    def tasks(
        self,
        *,
        state: str | Sequence[str] = (),
        owner: str | None = None,
        outcome: str | None = None,
        name: str | None = None,
        elements: bool = False,
        array: str | None = None,
        sort: str | None = None,
        page: int | None = None,
    ) -> Iterator[wire.TaskView]:
        """Tasks, the newest first, asked for page by page (of `page` tasks) as you go on.

        state: any of these: HELD, QUEUED, STARTING, RUNNING, STOPPING, FINISHED, or the groups
        waiting, live, unfinished, finished. outcome: only those that ended so, for example
        `failed`. name: a part of the name. sort: `id`, `submitted`, `finished` or `position` in line; with
        `-` before it descending.

        An array is one task here. With `elements` those of its elements that are tasks of their
        own come too; with `array` only those of that one.
        """
        query: dict[str, object] = {
            "state": state, "owner": owner, "outcome": outcome, "name": name,
            "elements": elements, "array": array, "sort": sort, "limit": page,
        }  # fmt: skip
        while True:
            found = self._get("/tasks", wire.TaskPage, query)
            yield from found.tasks
            if found.next is None:
                return
            query["cursor"] = found.next

    def why(self, id: str) -> wire.WhyView:
        """Why it waits, who holds what, when it may start, and what would start it now."""
        return self._get(f"{_path(id)}/why", wire.WhyView)

    def cancel(self, id: str) -> wire.TaskView:
        """End it: at once when it waits; when it runs it is asked first, and killed after its
        grace time. Returns when that is recorded, not when the last process is gone: `wait`."""
        return self._post(f"{_path(id)}/cancel", None, wire.TaskView)

    def hold(self, id: str) -> wire.TaskView:
        """Keep a waiting task from starting until it is released."""
        return self._post(f"{_path(id)}/hold", None, wire.TaskView)

    def release(self, id: str, *, anyway: bool = False) -> wire.TaskView:
        """Let a held task go; `anyway`: also past a task that it waits for in vain."""
        return self._post(f"{_path(id)}/release", None, wire.TaskView, {"anyway": anyway})

    def edit(self, id: str, spec: TaskSpec, version: int) -> wire.TaskView:
        """The task asks for `spec` from now on; of a finished one a new task is made, which is
        returned. Refused (`stale_edit`) when it is no longer at `version`."""
        return self._put(f"{_path(id)}/spec", spec, wire.TaskView, version)

    def move(
        self,
        id: str,
        to: Literal["first", "last", "before", "after"],
        other: str | None = None,
    ) -> wire.TaskView:
        """Another place in line; `before` and `after` need an `other` that waits too."""
        return self._post(f"{_path(id)}/move", wire.Move(to=to, other=other), wire.TaskView)

    def extend(
        self, id: str, *, limit_s: int | None = None, add_s: int | None = None
    ) -> wire.TaskView:
        """Another time limit, from its start on: `limit_s`, or `add_s` more than now, or none."""
        no_limit = limit_s is None and add_s is None
        wish = wire.Extension(time_limit_s=limit_s, add_s=add_s, no_limit=no_limit)
        return self._post(f"{_path(id)}/extend", wish, wire.TaskView)

    def share(self, person: str = "") -> ShareView:
        """Where you stand among the others, and why; admins may ask about any `person`."""
        from stoker.wire_share import ShareView  # noqa: PLC0415 - one command needs it

        return self._get("/share", ShareView, {"person": person} if person else None)

    def requeue(self, id: str) -> wire.TaskView:
        """End what runs of it and put it back in line."""
        return self._post(f"{_path(id)}/requeue", None, wire.TaskView)

    def resubmit(self, id: str, *, failed: bool = False) -> wire.Created:
        """The same once more, as a new task; those that wait for the old one follow.

        `failed`: of an array that has ended, only the elements that failed.
        """
        query = {"failed": True} if failed else None
        return self._post(f"{_path(id)}/resubmit", None, wire.Created, query)

    def successors(self, id: str) -> list[wire.TaskView]:
        """Waiting tasks that wait for it, and those that wait for them."""
        return self._get(f"{_path(id)}/successors", list[wire.TaskView])

    def delete(self, id: str, *, with_successors: bool = False) -> tuple[str, ...]:
        """Remove a waiting or finished task for good; the ids of all that are gone."""
        query = {"with_successors": with_successors}
        return self._delete(_path(id), wire.Deletion, query).deleted

    def export(
        self,
        ids: Sequence[str] = (),
        *,
        format: Literal["csv", "jsonl"] = "csv",
        last: int | None = None,
        owner: str | None = None,
        outcome: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        elements: bool = False,
        columns: Sequence[str] = (),
    ) -> Export:
        """Finished tasks as a file, piece by piece, the newest end first; `since` and `until` are
        about the end. An answer that is cut short raises ServerUnreachable (`cut`)."""
        from .export import Export  # noqa: PLC0415 - rarely needed

        query: dict[str, object] = {
            "format": format, "id": ids, "last": last, "owner": owner, "outcome": outcome,
            "since": since and since.astimezone().isoformat(),
            "until": until and until.astimezone().isoformat(),
            "elements": elements, "column": columns, "closing": True,
        }  # fmt: skip
        return Export(self._download("/tasks/export", query), self.url)

    # ---- output

    def log(
        self,
        id: str,
        *,
        stream: str = "stdout",
        offset: int = 0,
        limit: int | None = None,
        attempt: str | None = None,
    ) -> LogPart:
        """One part of the output, from `offset` on; a negative one counts from the end.

        Refused (`no_attempt_yet`) while it waits. attempt: another than the last one.
        """
        query = {"stream": stream, "offset": offset, "limit": limit, "attempt": attempt}
        data, headers = self._call("GET", f"{_path(id)}/log", query)
        try:
            begin, size = int(headers["Stoker-Offset"] or ""), int(headers["Stoker-Size"] or "")
        except ValueError as error:
            raise ServerUnreachable("not_stoker", self.url, "no Stoker-Offset") from error
        return LogPart(begin, data, size, headers["Stoker-Ended"] == "true")

    def output(self, id: str, *, stream: str = "stdout") -> str:
        """All it has written so far, as text; what is not UTF-8 is replaced."""
        return b"".join(self.read_log(id, stream=stream)).decode("utf-8", "replace")

    def read_log(self, id: str, *, stream: str = "stdout", offset: int = 0) -> Iterator[bytes]:
        """The output up to its end as it is now, in pieces; every byte as it was."""
        part = self.log(id, stream=stream, offset=offset, limit=CHUNK_BYTES)
        end = part.size
        while part.data:
            yield part.data[: max(0, end - part.offset)]
            if part.next >= end:
                return
            part = self.log(id, stream=stream, offset=part.next, limit=CHUNK_BYTES)

    def follow_log(
        self,
        id: str,
        *,
        stream: str = "stdout",
        offset: int = 0,
        timeout_s: float | None = None,
    ) -> Iterator[bytes]:
        """Output as it is written, to the task's end; no byte twice, every byte as it was.

        Waits for a task that has not begun; goes on after a restart of the server. Raises
        TimeoutError after `timeout_s`.
        """
        query: dict[str, object] = {"stream": stream, "offset": offset}
        for message in self._listen(f"{_path(id)}/log/stream", query, _deadline(timeout_s)):
            if message.event == "end":
                return
            piece = self._decoded(message.data.encode(), wire.LogPiece)
            query["attempt"] = piece.attempt  # a reconnect goes on with the same one
            start = max(piece.offset, offset)
            if piece.next > start:  # else it was said again after a reconnect
                yield self._exact(id, stream, piece)[start - piece.offset :]
                offset = piece.next

    def _exact(self, id: str, stream: str, piece: wire.LogPiece) -> bytes:
        """The bytes behind a piece of text: invalid ones were replaced on the way, so ask again."""
        data, length = piece.text.encode(), piece.next - piece.offset
        if len(data) == length and "\ufffd" not in piece.text:
            return data
        exact = b""
        while len(exact) < length:
            at = piece.offset + len(exact)
            part = self.log(
                id, stream=stream, offset=at, limit=length - len(exact), attempt=piece.attempt
            )
            if part.offset != at or not part.data:
                return data  # no longer kept: the replaced text is what there is
            exact += part.data
        return exact

    # ---- news

    def events(
        self, after: int | None = None, *, timeout_s: float | None = None
    ) -> Iterator[wire.EventView | StreamReset]:
        """What happens to tasks, for ever: from now on (a StreamReset comes first), or from behind
        the event numbered `after`, whose `seq` you kept.

        A connection that breaks is made again, and no event is missed or said twice. When the
        records have changed so that nobody can say what was missed, a StreamReset comes. Raises
        TimeoutError after `timeout_s`.
        """
        return self._events(after, _deadline(timeout_s))

    # a text is a sequence of texts too; as an id it is one
    @overload
    def wait(self, ids: str, timeout_s: float | None = None) -> wire.TaskView: ...  # type: ignore[overload-overlap]
    @overload
    def wait(
        self, ids: Iterable[str], timeout_s: float | None = None
    ) -> dict[str, wire.TaskView]: ...
    def wait(
        self, ids: str | Iterable[str], timeout_s: float | None = None
    ) -> wire.TaskView | dict[str, wire.TaskView]:
        """Wait until it has ended: one task, which is returned, or each of several, by id.

        An array has ended when its last element has. Goes on after a restart of the server.
        Raises TimeoutError after `timeout_s`; nothing is changed then. One that is deleted
        meanwhile is Refused (`unknown_task`).
        """
        wanted = (ids,) if isinstance(ids, str) else tuple(dict.fromkeys(ids))
        ended = self._ended(wanted, _deadline(timeout_s)) if wanted else {}
        return ended[ids] if isinstance(ids, str) else ended

    def _ended(self, ids: tuple[str, ...], deadline: float | None) -> dict[str, wire.TaskView]:
        ended: dict[str, wire.TaskView] = {}
        for news in self._events(None, deadline):
            left = [id for id in ids if id not in ended]
            if isinstance(news, wire.EventView):
                over = news.event in ("Ended", "Deleted")
                left = [id for id in left if over and id == news.task]
            for id in left:
                task = self._patiently(partial(self.task, id, waits=False), deadline).task
                if task.state == "FINISHED":
                    ended[id] = task
            if len(ended) == len(ids):
                break
        return {id: ended[id] for id in ids}

    def _events(
        self, after: int | None, deadline: float | None
    ) -> Iterator[wire.EventView | StreamReset]:
        for message in self._listen("/events/stream", {"after": after}, deadline):
            if message.event == "reset":
                yield StreamReset(int((message.id or "0").partition(".")[0]))
            else:
                yield self._decoded(message.data.encode(), wire.EventView)

    # ---- the rest

    def nodes(self) -> list[wire.NodeView]:
        """The machines, their cards, and who holds them."""
        return self._get("/nodes", list[wire.NodeView])

    def drain(self, node: str, why: str = "") -> wire.NodeView:
        """Nothing new starts on it; what runs there goes on."""
        return self._post(f"{_node(node)}/drain", wire.DrainWish(why=why), wire.NodeView)

    def resume(self, node: str) -> wire.NodeView:
        """It takes tasks again."""
        return self._post(f"{_node(node)}/resume", None, wire.NodeView)

    def health(self) -> wire.Health:
        """Whether all is well with the server, and how much waits and runs."""
        return self._get("/health", wire.Health)

    def version(self) -> wire.Version:
        """What the server is, and where its state folder is."""
        return self._get("/version", wire.Version)


def _deadline(timeout_s: float | None) -> float | None:
    return None if timeout_s is None else time.monotonic() + timeout_s


def _said(spec: TaskSpec, said: Collection[str] = ()) -> dict[str, object]:
    """What the server is told: only what is not as declared, or is meant so."""
    known = ((field, getattr(spec, field.name)) for field in fields())
    return {f.name: value for f, value in known if value != f.default or f.name in said}


def _path(id: str) -> str:
    return f"/tasks/{quote(id, safe='')}"


def _node(name: str) -> str:
    return f"/nodes/{quote(name, safe='')}"
