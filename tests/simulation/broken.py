"""The product broken on purpose, one rule at a time. See `mutants` for how they are caught."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from typing import Any
from unittest import mock

from msgspec import Struct, structs

import stoker.flow.collect as flow_collect
import stoker.flow.finish as flow_finish
import stoker.flow.follow as flow_follow
import stoker.flow.launch as flow_launch
import stoker.flow.place as flow_place
import stoker.flow.recover as flow_recover
import stoker.flow.remove as flow_remove
import stoker.flow.retain as flow_retain
import stoker.flow.stop as flow_stop
import stoker.flow.submit as flow_submit
import stoker.flow.watch as flow_watch
import stoker.scheduler.claim as scheduler_claim
import stoker.scheduler.plan as scheduler_plan
import stoker.scheduler.state as scheduler_state
from stoker.domain.outcome import End
from stoker.engines.base import AttemptEnded, AttemptLost
from stoker.engines.fleet.engine import FleetEngine
from stoker.engines.fleet.link import Link
from stoker.flow.commit import commit
from stoker.flow.launch import launch
from stoker.lab.book import Book
from stoker.runner import orders as runner_orders
from stoker.runner.record import Record
from stoker.scheduler.policy import NEGATIVE, POSITIVE, Policy
from stoker.scheduler.room import Card, Room

from .node import SimulatedNode
from .spool import MemorySpool, Part

Patch = AbstractContextManager[Any]


class Mutant(Struct, frozen=True):
    """For tests that have little time: a seed that showed it, and the theme where it shows."""

    make: Callable[[], Patch]
    theme: str
    seed: int


MUTANTS: dict[str, Mutant] = {}


def mutant(
    name: str, theme: str = "mixed", seed: int = 0
) -> Callable[[Callable[[], Patch]], Callable[[], Patch]]:
    def note(make: Callable[[], Patch]) -> Callable[[], Patch]:
        MUTANTS[name] = Mutant(make, theme, seed)
        return make

    return note


@contextmanager
def _both(one: Patch, other: Patch) -> Iterator[None]:
    with one, other:
        yield


def _always(answer: Any) -> Callable[..., Any]:
    """Whatever is asked."""
    return lambda *_arguments: answer


# ---- the protocol


@mutant("read-before-lock")
def _read_before_lock() -> Patch:
    """A record is read, then its lock is tried: who ends in between seems to have died."""
    real = Part.record

    def record(part: Part) -> Record:
        found = real(part)
        if part.exit is None or not part.started_at or part.looks >= 2:
            return found
        part.looks += 1
        return Record(found.key, False, found.claim, found.child, None, found.stuck)

    return mock.patch.object(Part, "record", record)


@mutant("resend-after-forget", "network")
def _resend_after_forget() -> Patch:
    """A forgotten number is not marked: a launch that comes late runs it again."""

    def forget(spool: MemorySpool, key: str, numbers: Any, account: str) -> None:
        del spool.records[key]

    return mock.patch.object(MemorySpool, "forget", forget)


@mutant("claim-without-bit", "network")
def _claim_without_bit() -> Patch:
    """A supervisor that was paused before its claim does not look at its bit."""
    return mock.patch.object(SimulatedNode, "_is_marked", _always(False))


@mutant("stop-without-tombstone", "again", 9)
def _stop_without_tombstone() -> Patch:
    """A stop of what has no record revokes nothing."""
    real = runner_orders.Orders.stop

    def stop(orders: Any, order: Any, key: str) -> None:
        before = set(orders._spool.mark.bits)
        real(orders, order, key)
        orders._spool.mark.bits = before

    return mock.patch.object(runner_orders.Orders, "stop", stop)


@mutant("ended-while-something-is-left")
def _ended_while_something_is_left() -> Patch:
    """The exit line is written when the main process ends."""

    def main_ended(node: Any, part: Part, end: Any) -> None:
        process = node._truth.alive.get(part.id)
        if process is not None and process.exit is None:
            process.exit = end
            node._finish(part, end)
            node._after(part, 5.0, lambda part: node._truth.end(part.id, 0.0))

    return mock.patch.object(SimulatedNode, "_main_ended", main_ended)


@mutant("unreachable=ended", "network")
def _unreachable_is_ended() -> Patch:
    real = Link._hang_up

    def hang_up(link: Link) -> bool:
        was_up = real(link)
        for id in list(link.expected) if was_up else ():
            at = datetime.fromtimestamp(0, UTC)
            link.say(AttemptLost(attempt=id, at=at, evidence="supervisor_died"))
        return was_up

    return mock.patch.object(Link, "_hang_up", hang_up)


@mutant("cancel-forgotten-at-restart", "again", 30)
def _cancel_forgotten_at_restart() -> Patch:
    real = FleetEngine.reconcile

    def reconcile(engine: FleetEngine, attempts: Any) -> None:
        real(engine, attempts)
        for link in engine.links.values():
            for expected in link.expected.values():
                expected.started = expected.started or expected.stop is not None
                expected.stop = None

    return mock.patch.object(FleetEngine, "reconcile", reconcile)


@mutant("limit-never-said", "again")
def _limit_never_said() -> Patch:
    """Another time limit is recorded and nobody hears of it."""

    def has_heard(_order: Any, _seen: Any) -> bool:
        return True

    quiet = mock.patch.object(Link, "extend", _always(None))
    deaf = mock.patch("stoker.engines.fleet.link.has_heard", has_heard)
    return _both(quiet, deaf)


@mutant("limit-forgotten-at-restart", "again", 26)
def _limit_forgotten_at_restart() -> Patch:
    """The server that recorded it dies, and the next one does not say it."""
    real = FleetEngine.reconcile

    def reconcile(engine: FleetEngine, attempts: Any) -> None:
        real(engine, attempts)
        for link in engine.links.values():
            for expected in link.expected.values():
                expected.extend = None

    return mock.patch.object(FleetEngine, "reconcile", reconcile)


# ---- the flow


@mutant("launch-before-commit")
def _launch_before_commit() -> Patch:
    async def carry_out(flow: Any, spot: Any, intent: Any) -> None:
        launch(flow, [intent])
        await commit(flow, [intent.change])

    return mock.patch.object(flow_place, "_carry_out", carry_out)


@mutant("answer-before-commit", "crashes")
def _answer_before_commit() -> Patch:
    async def commit(flow: Any, changes: Any) -> None:
        flow.later(real(flow, changes))

    real = vars(flow_submit)["commit"]
    return mock.patch.object(flow_submit, "commit", commit)


@mutant("free-at-TERM")
def _free_at_term() -> Patch:
    """A task counts as over when it was told to end."""
    real = flow_stop.send_stop

    def send_stop(flow: Any, live: Any) -> None:
        real(flow, live)
        end = End(outcome="cancelled", reason="cancelled")
        ended = AttemptEnded(attempt=live.attempt.id, at=flow.clock.now(), end=end)
        flow.engine._facts.put_nowait(ended)

    return mock.patch.object(flow_stop, "send_stop", send_stop)


@mutant("no-attempt-guard", "again", 17)
def _no_attempt_guard() -> Patch:
    """What is said of an attempt is taken to be about the task's present one."""
    real = vars(flow_watch)["finish"]

    async def finish(flow: Any, fact: Any) -> Any:
        if fact.attempt not in flow.live:
            known = await flow.store.attempt(fact.attempt)
            for live in flow.live.values():
                if known is not None and live.task.key == known.task:
                    return await real(flow, structs.replace(fact, attempt=live.attempt.id))
        return await real(flow, fact)

    return mock.patch.object(flow_watch, "finish", finish)


@mutant("retry-without-limit")
def _retry_without_limit() -> Patch:
    real = flow_finish._again

    def again(task: Any, fact: Any, end: Any, now: Any) -> Any:
        spec = structs.replace(task.spec, retries=1000)
        return real(structs.replace(task, spec=spec), fact, end, now)

    return mock.patch.object(flow_finish, "_again", again)


@mutant("lost-runs-again")
def _lost_runs_again() -> Patch:
    """What may have run is run again unasked."""
    real = flow_finish._again

    def again(task: Any, fact: Any, end: Any, now: Any) -> Any:
        spec = structs.replace(task.spec, requeue_on_loss=True)
        return real(structs.replace(task, spec=spec), fact, end, now)

    return mock.patch.object(flow_finish, "_again", again)


@mutant("room-leaks", seed=18)
def _room_leaks() -> Patch:
    """Room that was taken for an intent which was not recorded is not given back."""

    def give_back(flow: Any, spot: Any, now: Any) -> None:
        with mock.patch.object(type(flow.view), "free", _always(None)):
            real(flow, spot, now)

    real = flow_place._give_back
    return mock.patch.object(flow_place, "_give_back", give_back)


@mutant("pause-forgotten-at-submit", "shares", 29)
def _pause_forgotten_at_submit() -> Patch:
    """Who comes while nothing may start, and finds room, starts."""
    return mock.patch.object(flow_submit, "is_paused", _always(False))


@mutant("pause-forgotten-at-restart", "crashes", 23)
def _pause_forgotten_at_restart() -> Patch:
    async def load(book: Any) -> None:
        """Nothing."""

    return mock.patch.object(Book, "load", load)


@mutant("forget-before-copy")
def _forget_before_copy() -> Patch:
    real = flow_collect.collect

    async def collect(flow: Any, attempt: Any, spec: Any, small: Any = None) -> None:
        flow_collect._let_forget(flow, attempt)
        await real(flow, attempt, spec, small)

    return mock.patch.object(flow_finish, "collect", collect)


@mutant("successors-not-told", "arrays", 4)
def _successors_not_told() -> Patch:
    """Who waits for any end of a deleted task waits for ever."""

    def forget(flow: Any, gone: Any, attempts: Any) -> None:
        with mock.patch.object(type(flow.view), "settle", _always(None)):
            real(flow, gone, attempts)

    real = flow_remove.drop
    return mock.patch.object(flow_remove, "drop", forget)


@mutant("retention-asks-nobody", "arrays", 4)
def _retention_asks_nobody() -> Patch:
    """What others wait for goes as well."""
    return mock.patch.object(flow_retain, "needed", _always(set()))


# ---- the scheduler


@mutant("backfill-ignores-reservation", "full", 1)
def _backfill_ignores_reservation() -> Patch:
    return mock.patch.object(scheduler_plan._Pass, "_bars", _always({}))


@mutant("newcomer-ignores-reservation", "full", 1)
def _newcomer_ignores_reservation() -> Patch:
    return mock.patch.object(scheduler_claim, "kept_from", _always({}))


@mutant("quota-counted-at-start", "shares", 2)
def _quota_counted_at_start() -> Patch:
    """What is held by tasks that have not started yet does not count."""

    def cards_of(view: Any, owner: str = "", queue: str = "") -> int:
        return sum(
            sum(len(part.gpus) for part in held.allocations)
            for held in view.taken().values()
            if owner in ("", held.owner)
            and queue in ("", held.queue)
            and held.attempt in getattr(view, "begun", ())
        )

    def started(view: Any, attempt: str, at: datetime) -> None:
        real(view, attempt, at)
        view.begun = {*getattr(view, "begun", ()), attempt}

    view = scheduler_state.BaseView
    real = view.started
    return mock.patch.multiple(view, cards_of=cards_of, started=started)


@mutant("team-quota-of-one", "arrays", 4)
def _team_quota_of_one() -> Patch:
    """What one member holds is compared with the quota of all."""

    def cards_of_team(view: Any, team: str) -> int:
        members = (who for who, whose in view.policy.teams.items() if whose == team)
        return max(map(view.cards_of, members), default=0)

    return mock.patch.object(scheduler_state.BaseView, "cards_of_team", cards_of_team)


@mutant("team-quota-of-those-who-were-in-it", "arrays", 4)
def _team_quota_of_those_who_were_in_it() -> Patch:
    """Who joins a team leaves behind what he holds."""

    def counted(*_: Any) -> dict[str, int]:
        return {}

    return mock.patch.object(scheduler_state.BaseView, "_counted_by_team", counted)


@mutant("waiting-elements-not-counted", "again", 8)
def _waiting_elements_not_counted() -> Patch:
    """An element that is put back in line takes no place there."""
    return mock.patch.object(flow_follow, "count_element", _always(None))


@mutant("weight-0-tie", "shares", 3)
def _weight_0_tie() -> Patch:
    """Weight 0 goes first only by the smallest key, which idle people of any weight share."""

    def class_of(policy: Policy, owner: str) -> int:
        return NEGATIVE if policy.weight(owner) < 0 and policy.order != "fifo" else POSITIVE

    return mock.patch.object(Policy, "class_of", class_of)


@mutant("negative-passed", "shares", 2)
def _negative_passed() -> Patch:
    """Others are backfilled past a waiting owner of negative weight."""
    return mock.patch.object(scheduler_plan._QueuePass, "_is_negative", _always(False))


@mutant("shared-memory-counted-twice", "sharing", 30)
def _shared_memory_counted_twice() -> Patch:
    """What an attempt uses counts beside what it has reserved."""

    def free_mib(card: Card) -> int:
        reserved = sum(held.needs.gpu_memory_mib for held in card.holders.values())
        used = sum(card.load.attempts.get(attempt, 0) for attempt in card.holders)
        return card.gpu.memory_mib - reserved - used - card.load.foreign_mib

    return mock.patch.object(Card, "free_mib", property(free_mib))


@mutant("shared-memory-not-counted", "sharing", 2)
def _shared_memory_not_counted() -> Patch:
    def free_mib(card: Card) -> int:
        return card.gpu.memory_mib - sum(card.load.attempts.values()) - card.load.foreign_mib

    return mock.patch.object(Card, "free_mib", property(free_mib))


@mutant("dependency-any-as-ok", "arrays", 1)
def _dependency_any_as_ok() -> Patch:
    real = vars(scheduler_state)["comes_true"]

    def comes_true(when: Any, outcome: Any) -> Any:
        return real("ok" if when == "any" else when, outcome)

    return mock.patch.object(scheduler_state, "comes_true", comes_true)


@mutant("dependency-ok-as-any", "arrays", 1)
def _dependency_ok_as_any() -> Patch:
    real = vars(scheduler_state)["comes_true"]

    def comes_true(when: Any, outcome: Any) -> Any:
        return real("any" if when == "ok" else when, outcome)

    return mock.patch.object(scheduler_state, "comes_true", comes_true)


@mutant("array-cap-ignored", "arrays")
def _array_cap_ignored() -> Patch:
    return mock.patch.object(scheduler_state.BaseView, "live_of", _always(0))


@mutant("sweep-forgotten-at-restart", "arrays", 31)
def _sweep_forgotten_at_restart() -> Patch:
    return mock.patch.object(flow_recover, "render", lambda spec, _: spec)


@mutant("sweep-of-a-neighbour", "arrays", 4)
def _sweep_of_a_neighbour() -> Patch:
    def render(spec: Any, index: int) -> Any:
        return real(spec, index + 1)

    real = vars(flow_launch)["render"]
    return mock.patch.object(flow_launch, "render", render)


@mutant("drained-node-used")
def _drained_node_used() -> Patch:
    return mock.patch.object(Room, "usable", property(lambda room: room.up))


@mutant("down-node-used", "network", 4)
def _down_node_used() -> Patch:
    return mock.patch.object(Room, "usable", property(lambda room: not room.drained))


@mutant("foreign-ignored", "sharing")
def _foreign_ignored() -> Patch:
    def is_free(card: Card) -> bool:
        holders = len(card.holders)
        return holders == 0 or (holders == len(card.slots_taken) < card.gpu.slots)

    return mock.patch.object(Card, "is_free", property(is_free))
