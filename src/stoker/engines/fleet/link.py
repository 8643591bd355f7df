"""One node: its connection, what we expect of it, and what its news mean (PROTOCOL 4).

The link is never waited for. Orders are kept in `expected` and sent when the node has introduced
itself and listed what it has; every listing is compared with `expected`, and what is missing is
sent again. A closed connection says nothing about attempts.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Protocol

import msgspec
from msgspec import Struct, structs

from stoker.domain.attempt import Attempt
from stoker.domain.errors import EngineRefused, EngineUnreachable, UnknownLog
from stoker.domain.outcome import End
from stoker.engines.base import (
    AttemptEnded,
    AttemptLost,
    AttemptNeverRan,
    AttemptStarted,
    AttemptStuck,
    AttemptUnknown,
    AttemptUnnumbered,
    EngineOutdated,
    ExtendOrder,
    Fact,
    LaunchOrder,
    LogChunk,
    NodeDown,
    NodeRecalled,
    NodeUp,
    StopOrder,
)
from stoker.runner import protocol

from .orders import (
    ended_from,
    has_heard,
    incarnation_from,
    instant,
    node_from,
    past_from,
    sample_from,
    to_extend,
    to_forget,
    to_launch,
    to_stop,
)

log = logging.getLogger("stoker.fleet")

RECONNECT_S = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
HELLO_S = 15.0
READ_S = 15.0
CALL_S = 10.0
CALL_GRACE_S = 5.0
"""The runner itself says when a call takes too long."""
LINE_LIMIT = 64 << 20
REVOKED = End(outcome="cancelled", reason="cancelled")


class Transport(Protocol):
    """How a runner is reached: a unix socket here, an ssh channel elsewhere."""

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Starts the runner if there is none. Raises OSError when it cannot be reached."""
        ...

    async def replace(self) -> None:
        """Put our own version of the runner in place of the one that runs."""
        ...

    def accepts(self, hello: protocol.Hello) -> bool:
        """Whether this runner is the one we would start ourselves."""
        ...


class Expected(Struct):
    """An attempt that should be on this node."""

    attempt: Attempt
    order: LaunchOrder | None = None
    """To be sent again while it has not begun; None once it is known to have."""
    stop: StopOrder | None = None
    extend: ExtendOrder | None = None
    """The limit it should have; sent again whenever its node lists another one."""
    started: bool = False


class Link:
    def __init__(self, name: str, transport: Transport, say: Callable[[Fact], None]) -> None:
        self.name, self.transport, self.say = name, transport, say
        self.epoch = 0
        self.expected: dict[str, Expected] = {}
        self._writer: asyncio.StreamWriter | None = None
        self._hello: protocol.Hello | None = None
        self._listed = False
        self._asked: dict[int, asyncio.Future[Any]] = {}
        """Questions without an answer yet, by their number."""
        self._last_question = 0
        self.recall_above: int | None = None
        """What was launched above this number is asked before anything else, and told."""
        self._unread: protocol.Listing | None = None
        """The last listing that came while that was not answered."""
        self._handlers: dict[str, tuple[type[Any], Callable[[Any], None]]] = {
            cls.__name__: (cls, handler)
            for cls, handler in (
                (protocol.Listing, self._on_listing),
                (protocol.Recalled, self._on_recalled),
                (protocol.Seen, self._on_seen),
                (protocol.Refused, self._on_refused),
                (protocol.Swept, self._on_swept),
                (protocol.LogData, self._on_answer),
                (protocol.Answer, self._on_answer),
                (protocol.Sample, self._on_sample),
            )
        }

    # ---- orders

    def launch(self, order: LaunchOrder) -> None:
        known = self.expected.setdefault(order.attempt.id, Expected(order.attempt))
        known.attempt, known.order = order.attempt, order
        if self._listed and known.stop is None:
            self._send(to_launch(order, self.epoch))

    def stop(self, order: StopOrder) -> None:
        known = self.expected.setdefault(order.attempt.id, Expected(order.attempt))
        known.stop = order
        if self._listed:
            self._send(to_stop(order, self.epoch))

    def extend(self, order: ExtendOrder) -> None:
        """A launch that has not arrived takes the limit along; one that has hears of it."""
        known = self.expected.get(order.attempt.id)
        if known is None:
            return  # over, or of a node that we have not heard of
        known.extend = order
        if known.order is not None:
            spec = structs.replace(known.order.spec, time_limit_s=order.time_limit_s)
            known.order = structs.replace(known.order, spec=spec)
        if self._listed and known.stop is None:
            self._send(to_extend(order, self.epoch))

    def forget(self, attempt: Attempt) -> None:
        """While it cannot be sent, the node lists the attempt again and we are asked again."""
        self.expected.pop(attempt.id, None)
        if self._listed:
            self._send(to_forget(attempt, self.epoch))

    async def read_log(
        self, attempt: Attempt, rank: int, stream: str, offset: int, limit: int
    ) -> LogChunk:
        found: protocol.LogData = await self._ask(
            lambda id: protocol.ReadLog(id, attempt.id, rank, stream, offset, limit), READ_S
        )
        if found.error:
            code = {"missing": "log_missing", "denied": "log_denied"}.get(
                found.error, "log_missing"
            )
            raise UnknownLog(code, why=found.error)
        return LogChunk(found.offset, base64.b64decode(found.data), found.size)

    async def call(self, account: str, verb: str, args: Mapping[str, str]) -> Mapping[str, Any]:
        found: protocol.Answer = await self._ask(
            lambda id: protocol.Call(id, verb, account, dict(args), CALL_S), CALL_S + CALL_GRACE_S
        )
        if found.error in ("busy", "timeout"):
            raise EngineUnreachable(node=self.name)
        if found.error:
            raise EngineRefused(why=found.error, detail=str(found.result.get("detail", "")))
        return found.result

    async def _ask(self, question: Callable[[int], Any], patience_s: float) -> Any:
        """The answer to a question that carries a number. Raises EngineUnreachable."""
        if not self._listed:
            raise EngineUnreachable(node=self.name)
        self._last_question += 1
        id = self._last_question
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._asked[id] = answer
        self._send(question(id))
        try:
            async with asyncio.timeout(patience_s):  # wait_for may forget that we were cancelled
                return await answer
        except TimeoutError as error:
            raise EngineUnreachable(node=self.name) from error
        finally:
            self._asked.pop(id, None)

    # ---- the connection

    async def run(self) -> None:
        """Stay connected until cancelled."""
        failures = 0
        while True:
            why = ""
            try:
                await self._talk()
                failures = 0
            except (OSError, EOFError, ValueError, msgspec.ValidationError, TimeoutError) as error:
                why = str(error) or type(error).__name__
            finally:
                was_up = self._hang_up()
            if was_up:
                failures = 0
                self.say(NodeDown(node=self.name, at=_now(), why=why or "connection closed"))
            if why:
                log.warning("event=disconnected node=%s reason=%s", self.name, why)
            await asyncio.sleep(RECONNECT_S[min(failures, len(RECONNECT_S) - 1)])
            failures += 1

    async def _talk(self) -> None:
        reader, self._writer = await self.transport.connect()
        self._send(protocol.Greeting(self.epoch))
        async with asyncio.timeout(HELLO_S):
            first = await reader.readline()
        hello = msgspec.convert(_parse(first, "Hello"), protocol.Hello)
        if hello.epoch > self.epoch:
            self.say(EngineOutdated(node=self.name, epoch=hello.epoch))
            return
        if not self.transport.accepts(hello):
            self._writer.close()
            await self.transport.replace()
            return
        self._hello = hello
        while line := await reader.readline():
            self._on_line(line)
        raise EOFError

    def _hang_up(self) -> bool:
        was_up = self._listed
        self._listed, self._hello, self._unread = False, None, None
        if self._writer is not None:
            with suppress(OSError, RuntimeError):
                self._writer.close()
            self._writer = None
        for answer in self._asked.values():
            if not answer.done():
                answer.set_exception(EngineUnreachable(node=self.name))
        return was_up

    def _send(self, message: Any) -> None:
        """On a connection that is going down it is lost, and sent again after the next listing."""
        if self._writer is not None:
            with suppress(OSError, RuntimeError):  # uvloop raises where asyncio is silent
                self._writer.write(protocol.line(message))

    def _on_line(self, line: bytes) -> None:
        body = _parse(line)
        found = self._handlers.get(str(body.get("type")))
        if found is not None:  # a newer runner may say more than we know
            cls, handler = found
            handler(msgspec.convert(body, cls))

    # ---- news

    def _on_listing(self, listing: protocol.Listing) -> None:
        if self.recall_above is None:
            self._compare(listing)
            return
        if self._unread is None:
            self._send(protocol.Recall(self.epoch, self.recall_above))
        self._unread = listing

    def _on_recalled(self, recalled: protocol.Recalled) -> None:
        listing, self._unread = self._unread, None
        if listing is None or self.recall_above is None:
            return
        self.recall_above = None
        self._say_up(listing)
        self.say(
            NodeRecalled(
                node=self.name,
                incarnation=incarnation_from(recalled.incarnation),
                parts=tuple(past_from(past, recalled.incarnation) for past in recalled.parts),
                unexplained=tuple(recalled.unexplained),
            )
        )
        self._listed = True
        self._compare(listing)

    def _compare(self, listing: protocol.Listing) -> None:
        assert self._hello is not None
        first, self._listed = not self._listed, True
        if first:
            self._say_up(listing)
        there = set()
        for part in listing.parts:
            there.add(part.attempt)
            self._on_seen(part)
            known = self.expected.get(part.attempt)
            if known is not None and part.state in ("starting", "running"):
                self._remind(known, part)
        for id in [id for id in self.expected if id not in there]:
            self._missing(self.expected[id])

    def _remind(self, known: Expected, part: protocol.Seen) -> None:
        """It runs, or is about to: what it should have heard and has not is said again."""
        if known.stop is not None:
            self._send(to_stop(known.stop, self.epoch))
        elif known.extend is not None and not has_heard(known.extend, part):
            self._send(to_extend(known.extend, self.epoch))

    def _say_up(self, listing: protocol.Listing) -> None:
        assert self._hello is not None
        fact = NodeUp(
            node=node_from(self.name, self._hello),
            incarnation=incarnation_from(listing.incarnation),
            highest=max(listing.highest, self._hello.highest),
        )
        self.say(fact)

    def _on_seen(self, part: protocol.Seen) -> None:
        known = self.expected.get(part.attempt)
        if known is None:
            over = part.state in ("ended", "lost", "never_ran")
            self.say(
                AttemptUnknown(
                    attempt=part.attempt, node=self.name, ended=over, gpus=tuple(part.gpus)
                )
            )
            return
        if part.stuck:
            self.say(AttemptStuck(attempt=part.attempt, why=part.stuck))
        match part.state:
            case "running":
                self._begun(known, part)
            case "ended" if part.exit is not None:
                self._ended(known, part.exit, part.started_at, part.log)
            case "lost":
                evidence = part.evidence or "supervisor_died"
                self.say(AttemptLost(attempt=part.attempt, at=_now(), evidence=evidence))
            case "never_ran":
                self.say(AttemptNeverRan(attempt=part.attempt))
            case _:  # starting: nothing to say yet
                pass

    def _begun(self, known: Expected, part: protocol.Seen) -> None:
        known.order = None
        if not known.started:
            known.started = True
            self.say(AttemptStarted(attempt=part.attempt, at=instant(part.started_at)))

    def _ended(
        self, known: Expected, exit: protocol.Exit, started_at: float, small: str | None
    ) -> None:
        known.order = None
        log = None if small is None else base64.b64decode(small)
        ended = ended_from(known.attempt.id, exit, started_at, log=log)
        if exit.cause == "revoked" and known.stop is not None and known.stop.cause == "requeue":
            ended = structs.replace(ended, requeue=True)
        self.say(ended)

    def _missing(self, known: Expected) -> None:
        """It has no record there: what that means depends on which life of the node this is."""
        assert self._hello is not None
        then, now = known.attempt.incarnation, self._hello.incarnation
        id = known.attempt.id
        if then.boot_id != now.boot_id:
            self.say(AttemptLost(attempt=id, at=_now(), evidence="rebooted"))
        elif then.spool_id != now.spool_id or known.started:
            self._send(protocol.Sweep(id, 0, self.epoch))
        elif known.stop is not None:
            self._send(to_stop(known.stop, self.epoch))
        elif known.order is not None:
            self._send(to_launch(known.order, self.epoch))

    def _on_refused(self, refused: protocol.Refused) -> None:
        known = self.expected.get(refused.attempt)
        if refused.why == "epoch":
            self.say(EngineOutdated(node=self.name, epoch=self.epoch + 1))
        elif known is None or refused.number != known.attempt.launch_number:
            return  # about an older word of ours
        elif refused.why == "forgotten" and refused.exit is not None:
            self._ended(known, refused.exit, 0.0, None)
        elif refused.why == "forgotten" and refused.state == "lost":
            self.say(AttemptLost(attempt=refused.attempt, at=_now(), evidence="supervisor_died"))
        elif refused.why == "forgotten" and refused.state == "never_ran":
            self.say(AttemptNeverRan(attempt=refused.attempt))
        elif refused.why == "forgotten" and known.stop is not None:
            self.say(AttemptEnded(attempt=refused.attempt, at=_now(), end=REVOKED))
        elif refused.why == "forgotten" and self._hello is not None:
            incarnation = incarnation_from(self._hello.incarnation)
            self.say(AttemptUnnumbered(attempt=refused.attempt, incarnation=incarnation))
        elif refused.why == "incarnation":
            self._missing(known)

    def _on_swept(self, swept: protocol.Swept) -> None:
        if swept.left == 0 and swept.attempt in self.expected:
            self.say(AttemptLost(attempt=swept.attempt, at=_now(), evidence="spool_gone"))

    def _on_answer(self, found: protocol.LogData | protocol.Answer) -> None:
        answer = self._asked.get(found.id)
        if answer is not None and not answer.done():
            answer.set_result(found)

    def _on_sample(self, sample: protocol.Sample) -> None:
        self.say(sample_from(self.name, sample))


def _parse(line: bytes, wanted: str = "") -> dict[str, Any]:
    if not line.endswith(b"\n"):
        raise EOFError("the runner closed the connection")
    body = json.loads(line)
    if not isinstance(body, dict) or (wanted and body.get("type") != wanted):
        raise ValueError("not a runner's line")
    return body


def _now() -> datetime:
    return datetime.now(UTC)
