"""What a node's news mean (PROTOCOL 4), without a node: a link with its wire in our hands."""

from __future__ import annotations

import json
from typing import Any

import pytest
from typing_extensions import override

from stoker.domain.attempt import Attempt
from stoker.domain.node import Incarnation
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
    NodeUp,
    StopOrder,
)
from stoker.engines.fleet.link import Expected, Link
from stoker.runner import protocol
from stoker.runner.protocol import Exit, Hello, Listing, Refused, Seen, Swept
from tests.helpers.builders import NOON, a_spec, an_allocation

HERE = protocol.Incarnation("boot-1", "spool-1")
DONE = Exit(cause="exit", code=0, at=1.0)


class Wire:
    """Stands for the connection: what the link sends, as messages."""

    def __init__(self) -> None:
        self.sent: list[Any] = []

    def write(self, line: bytes) -> None:
        self.sent.append(protocol.read(line))


class BrokenWire(Wire):
    """A connection that went down a moment ago (as uvloop's says it)."""

    @override
    def write(self, line: bytes) -> None:
        raise RuntimeError("the handler is closed")


class Talk:
    """A link that has been greeted by a node of incarnation HERE."""

    def __init__(self) -> None:
        self.facts: list[Fact] = []
        self.wire = Wire()
        self.link = Link("node-a", None, self.facts.append)  # type: ignore[arg-type]
        self.link.epoch = 7
        self.link._writer = self.wire  # type: ignore[assignment]
        self.link._hello = Hello(HERE, "build", 1, 7, 5, "host", 8, 1000)

    def hears(self, message: Any) -> list[Fact]:
        self.facts.clear()
        self.wire.sent.clear()
        self.link._on_line(protocol.line(message))
        return self.facts

    def lists(self, *parts: Seen) -> list[Fact]:
        return self.hears(Listing(HERE, 5, list(parts)))

    def names(self) -> list[str]:
        return [type(message).__name__ for message in self.wire.sent]


@pytest.fixture
def talk() -> Talk:
    made = Talk()
    made.lists()
    return made


def an_attempt(boot: str = "boot-1", spool: str = "spool-1", number: int = 3) -> Attempt:
    return Attempt(
        id="a1", task_id=1, task_element=-1, ordinal=1, allocation=an_allocation("node-a", 0),
        incarnation=Incarnation(boot, spool), launch_number=number, epoch=7, placed_at=NOON,
    )  # fmt: skip


def order(attempt: Attempt | None = None) -> LaunchOrder:
    return LaunchOrder(attempt=attempt or an_attempt(), spec=a_spec(), owner="ana")


def stop(attempt: Attempt | None = None, cause: str = "cancel") -> StopOrder:
    return StopOrder(attempt=attempt or an_attempt(), cause=cause, grace_s=3)


def seen(state: str, **fields: Any) -> Seen:
    return Seen("a1", 0, 3, state, **fields)


def test_the_first_listing_says_that_the_node_is_there() -> None:
    (fact,) = Talk().lists()

    assert isinstance(fact, NodeUp)
    assert (fact.node.name, fact.highest) == ("node-a", 5)


def test_orders_wait_until_the_node_has_listed_what_it_has() -> None:
    talk = Talk()
    talk.link.launch(order())
    assert talk.wire.sent == []

    talk.lists()

    (sent,) = talk.wire.sent
    assert isinstance(sent, protocol.Launch)
    assert (sent.attempt, sent.number, sent.epoch, sent.incarnation) == ("a1", 3, 7, HERE)


def test_not_begun_is_sent_again_at_every_listing(talk: Talk) -> None:
    talk.link.launch(order())
    for _ in range(3):
        talk.lists()
        assert talk.names() == ["Launch"]


def test_once_it_runs_it_is_never_sent_again(talk: Talk) -> None:
    talk.link.launch(order())
    (fact,) = talk.hears(seen("running", started_at=5.0))
    assert isinstance(fact, AttemptStarted)
    assert talk.lists(seen("running", started_at=5.0)) == []
    assert talk.names() == []

    talk.lists()

    assert talk.names() == ["Sweep"]


@pytest.mark.parametrize("known", ["order", "running", "stopping"])
def test_after_a_reboot_it_is_lost(talk: Talk, known: str) -> None:
    attempt = an_attempt(boot="boot-0")
    talk.link.expected["a1"] = Expected(
        attempt,
        order=order(attempt) if known == "order" else None,
        stop=stop(attempt) if known == "stopping" else None,
        started=known == "running",
    )
    (fact,) = talk.lists()

    assert isinstance(fact, AttemptLost)
    assert fact.evidence == "rebooted"
    assert talk.names() == []


def test_in_another_spool_everything_of_it_is_ended_before_it_is_lost(talk: Talk) -> None:
    attempt = an_attempt(spool="spool-0")
    talk.link.expected["a1"] = Expected(attempt, order=order(attempt))
    assert talk.lists() == []
    assert talk.names() == ["Sweep"]
    assert talk.hears(Swept("a1", 0, 2)) == []

    (fact,) = talk.hears(Swept("a1", 0, 0))

    assert isinstance(fact, AttemptLost)
    assert fact.evidence == "spool_gone"


def test_a_stop_is_repeated_while_it_lives_and_when_it_never_began(talk: Talk) -> None:
    talk.link.launch(order())
    talk.link.stop(stop())
    talk.lists(seen("running"))
    assert talk.names() == ["Stop"]

    talk.link.expected["a1"].started = False
    talk.lists()
    assert talk.names() == ["Stop"]


def test_what_is_to_be_stopped_is_not_launched(talk: Talk) -> None:
    talk.link.stop(stop())
    talk.wire.sent.clear()
    talk.link.launch(order())

    assert talk.names() == []


def test_an_end_is_told_until_it_is_forgotten(talk: Talk) -> None:
    talk.link.launch(order())
    for _ in range(2):
        (fact,) = talk.lists(seen("ended", exit=DONE, started_at=4.0, log="aGk="))
        assert isinstance(fact, AttemptEnded)
        assert (fact.end.outcome, fact.log) == ("succeeded", b"hi")
        assert fact.started_at is not None
    talk.link.forget(an_attempt())
    assert talk.names() == ["Forget"]

    (again,) = talk.lists(seen("ended", exit=DONE))

    assert again == AttemptUnknown(attempt="a1", node="node-a", ended=True)


def test_what_never_ran_and_what_nobody_can_know(talk: Talk) -> None:
    talk.link.launch(order())

    assert talk.lists(seen("never_ran")) == [AttemptNeverRan(attempt="a1")]
    (fact,) = talk.lists(seen("lost", evidence="rebooted"))
    assert isinstance(fact, AttemptLost)
    assert fact.evidence == "rebooted"
    assert talk.lists(seen("starting")) == []
    assert talk.names() == []


def test_a_command_that_was_refused_never_started(talk: Talk) -> None:
    talk.link.launch(order())
    end = Exit(cause="refused", reason="command_not_found", detail="x", at=1.0)
    (fact,) = talk.lists(seen("ended", exit=end, started_at=4.0))

    assert isinstance(fact, AttemptEnded)
    assert (fact.started_at, fact.end.reason) == (None, "command_not_found")


def test_stopped_for_another_run(talk: Talk) -> None:
    talk.link.launch(order())
    talk.link.stop(stop(cause="requeue"))
    for cause in ("requeue", "revoked"):
        (fact,) = talk.hears(seen("ended", exit=Exit(cause=cause, at=1.0)))
        assert isinstance(fact, AttemptEnded)
        assert fact.requeue


def test_a_used_up_number_is_asked_for_anew(talk: Talk) -> None:
    talk.link.launch(order())
    (fact,) = talk.hears(Refused("a1", 0, 3, "forgotten"))

    assert fact == AttemptUnnumbered(attempt="a1", incarnation=Incarnation("boot-1", "spool-1"))
    assert talk.hears(Refused("a1", 0, 2, "forgotten")) == []  # about an older word of ours


def test_what_was_forgotten_is_remembered_by_its_node(talk: Talk) -> None:
    talk.link.launch(order())

    (ended,) = talk.hears(Refused("a1", 0, 3, "forgotten", DONE, "ended"))
    assert isinstance(ended, AttemptEnded)
    (lost,) = talk.hears(Refused("a1", 0, 3, "forgotten", None, "lost"))
    assert isinstance(lost, AttemptLost)
    (never,) = talk.hears(Refused("a1", 0, 3, "forgotten", None, "never_ran"))
    assert isinstance(never, AttemptNeverRan)


def test_a_revoked_stop_that_was_not_heard(talk: Talk) -> None:
    talk.link.stop(stop())
    (fact,) = talk.hears(Refused("a1", 0, 3, "forgotten"))

    assert isinstance(fact, AttemptEnded)
    assert fact.end.outcome == "cancelled"


def test_another_server_has_taken_over(talk: Talk) -> None:
    (fact,) = talk.hears(Refused("a1", 0, 3, "epoch"))

    assert isinstance(fact, EngineOutdated)


def test_refused_for_its_incarnation_is_judged_like_a_missing_one(talk: Talk) -> None:
    attempt = an_attempt(boot="boot-0")
    talk.link.launch(order(attempt))
    (fact,) = talk.hears(Refused("a1", 0, 3, "incarnation"))

    assert isinstance(fact, AttemptLost)


def test_stuck_is_said_and_strangers_are_asked_about(talk: Talk) -> None:
    talk.link.launch(order())
    assert AttemptStuck(attempt="a1", why="ignores KILL") in talk.hears(
        seen("running", stuck="ignores KILL")
    )
    (fact,) = talk.hears(Seen("b2", 0, 9, "running"))
    assert fact == AttemptUnknown(attempt="b2", node="node-a", ended=False)


def test_orders_on_a_connection_that_is_going_down_are_kept(talk: Talk) -> None:
    wire, talk.link._writer = talk.wire, BrokenWire()  # type: ignore[assignment]
    talk.link.launch(order())
    talk.link.stop(stop(an_attempt()))
    talk.link._writer = wire  # type: ignore[assignment]

    talk.lists()

    assert talk.names() == ["Stop"]


def test_words_of_a_newer_runner_are_passed_over(talk: Talk) -> None:
    talk.link._on_line(json.dumps({"type": "FromTomorrow", "x": 1}).encode() + b"\n")


@pytest.mark.parametrize("line", [b"", b"half", b"[]\n", b"\xff\n", b"not json\n"])
def test_what_is_no_line_ends_the_connection(talk: Talk, line: bytes) -> None:
    with pytest.raises((ValueError, EOFError)):
        talk.link._on_line(line)


# ---- another time limit


def extend(limit_s: int | None, serial: int = 4) -> ExtendOrder:
    return ExtendOrder(attempt=an_attempt(), time_limit_s=limit_s, serial=serial)


def test_another_limit_is_sent_at_once_and_again_until_the_node_has_it(talk: Talk) -> None:
    talk.link.launch(order())
    talk.lists(seen("running", limit_s=60))
    talk.wire.sent.clear()

    talk.link.extend(extend(120))
    (sent,) = talk.wire.sent
    assert (sent.attempt, sent.number, sent.epoch) == ("a1", 3, 7)
    assert (sent.time_limit_s, sent.serial) == (120, 4)

    talk.lists(seen("running", limit_s=60))
    assert talk.names() == ["Extend"]
    talk.lists(seen("running", limit_s=120))
    assert talk.names() == []


def test_no_limit_at_all_is_a_limit_too(talk: Talk) -> None:
    talk.link.launch(order())
    talk.link.extend(extend(None))

    talk.lists(seen("starting", limit_s=60))
    assert [message.time_limit_s for message in talk.wire.sent] == [None]
    talk.lists(seen("running", limit_s=0))
    assert talk.names() == []


def test_a_launch_that_has_not_arrived_takes_the_limit_along(talk: Talk) -> None:
    talk.link.launch(order())
    talk.link.extend(extend(120))

    talk.lists()

    (sent,) = talk.wire.sent
    assert isinstance(sent, protocol.Launch)
    assert sent.time_limit_s == 120


def test_who_cannot_be_told_is_not_told_again_and_again(talk: Talk) -> None:
    """A supervisor of an older version, and one that is being stopped."""
    talk.link.launch(order())
    talk.link.extend(extend(120))
    talk.lists(seen("running"))
    assert talk.names() == []

    talk.link.stop(stop())
    talk.link.extend(extend(240, serial=5))
    talk.lists(seen("running", limit_s=60))
    assert talk.names() == ["Stop"]


def test_a_limit_for_what_is_over_goes_nowhere(talk: Talk) -> None:
    talk.wire.sent.clear()

    talk.link.extend(extend(120))

    assert talk.names() == []
    assert talk.link.expected == {}
