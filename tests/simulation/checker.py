"""The promises, checked against what really happened: at every commit, start and end of a process.

It trusts the truth (simulated nodes) and the records (as committed), never what the server holds in
memory. A broken promise is kept in the history; its first word is the rule.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

from stoker.domain.dependency import parse_after
from stoker.domain.event import Ended, Placed, Requeued, Started
from stoker.domain.key import PLAIN, TaskKey
from stoker.domain.lifecycle import LIVE, State, Task
from stoker.domain.node import Incarnation, Node
from stoker.domain.outcome import End
from stoker.domain.sweep import array_of, is_array
from stoker.scheduler.policy import Policy
from stoker.store.base import Amendment, Change

from .history import History
from .judge import came_true, clash, differs
from .records import Recorded, Records
from .truth import Process, Truth

RECORDED_S = 10.0


class Checker:
    def __init__(
        self,
        history: History,
        records: Records,
        truth: Truth,
        nodes: Mapping[str, Node],
        policy: Policy,
        time: Callable[[], float],
        incarnation: Callable[[str], Incarnation],
        could_have_heard: Callable[[str, float], bool],
    ) -> None:
        self._incarnation, self._could_have_heard = incarnation, could_have_heard
        self._history, self._records, self._truth = history, records, truth
        self._nodes, self._time = nodes, time
        self._gpus = {gpu.uuid: gpu for node in nodes.values() for gpu in node.gpus}
        self.policies = [policy]
        """The present one last; before it the ones that a plan under way may still be based on."""
        self._policy_since = 0.0
        self._accepted: dict[TaskKey, str] = {}
        self._may_be_gone: set[TaskKey] = set()
        self._gone: set[TaskKey] = set()
        self._stopped: set[TaskKey] = set()
        self._drained: set[str] = set()
        self.paused = False
        """As recorded: nothing may be placed from the very next commit on."""
        self.resumes = 0
        """How often somebody has asked to resume a node."""
        self._refused_names: set[str] = set()
        truth.on_begin = self.began
        truth.on_over = self.over
        truth.on_limit = self.at_limit

    def broken(self, rule: str, what: str) -> None:
        self._history.broken(rule, what)

    # ---- what people were told

    def submitted(self, tasks: Sequence[Task]) -> None:
        """R1: what was acknowledged is recorded."""
        for task in tasks:
            self._accepted[task.key] = task.spec.name
            if task.key not in self._records.tasks and task.key not in self._may_be_gone:
                self.broken("R1", f"task {task.key} was acknowledged and is not recorded")

    def not_submitted(self, names: Sequence[str]) -> None:
        """R12: a refusal means that nothing was recorded."""
        self._refused_names.update(names)
        for task in self._records.tasks.values():
            if task.spec.name in names and task.element == PLAIN and task.origin is None:
                self.broken("R12", f"submit of {task.spec.name} failed but it is task {task.key}")

    def cancelled(self, key: TaskKey) -> None:
        """R7: from here on it may end, and nothing else."""
        self._stopped.add(key)

    def may_go(self) -> None:
        """Somebody asked to delete a task, perhaps with all that wait for it."""
        self._may_be_gone.update(self._records.tasks)

    def deleted(self, keys: Sequence[TaskKey]) -> None:
        self._gone.update(keys)
        self._may_be_gone.update(keys)  # some may have come after the wish
        for key in keys:
            if key in self._records.tasks:
                self.broken("R1", f"task {key} was deleted and is still there")

    def drained(self, node: str) -> None:
        self._drained.add(node)

    def resumed(self, node: str) -> None:
        self._drained.discard(node)
        self.resumes += 1

    def policy_set(self, policy: Policy) -> None:
        self.policies = [self.policies[-1], policy]
        self._policy_since = self._time()

    @property
    def policy(self) -> Policy:
        return self.policies[-1]

    # ---- what was recorded

    def committed(self, work: str, argument: Any) -> None:
        """One call of the store's writer has become durable."""
        self._records.commits += 1
        if work == "_record":
            for change in argument:
                self._change(change)
        elif work == "_amend":
            self._amended(argument[0])
        elif work == "_erase":
            tasks, deleted = argument
            if deleted.by == "retention":
                self._may_go_by_itself(tasks)
            for task in tasks:
                known = self._records.tasks.get(task.key)
                if known is not None and known.state in LIVE:
                    self.broken("delete", f"task {task.key} was deleted while {known.state}")
            gone = self._records.drop(tasks)
            self._history.add("commit Deleted " + " ".join(map(str, gone)))

    def _amended(self, amendments: Sequence[Amendment]) -> None:
        for one in amendments:
            if one.kind == "pause":
                self.paused = one.body is not None
                self._history.add(f"commit {'paused' if self.paused else 'unpaused'}")

    def _may_go_by_itself(self, tasks: Sequence[Task]) -> None:
        """Only what is over, and what nobody waits for."""
        ids = {task.id for task in tasks}
        for one in self._records.tasks.values():
            if one.state is State.FINISHED:
                continue
            if one.id in ids:
                self.broken("retain", f"task {one.key} was deleted and is {one.state}")
            named = {found.key.id for text in one.spec.after if (found := parse_after(text))}
            if named & ids and not one.anyway:
                self.broken("retain", f"task {one.key} waits for one that was deleted: {named}")

    def _change(self, change: Change) -> None:
        task, records = change.task, self._records
        before = records.tasks.get(task.key)
        if before is not None and before.state is State.FINISHED:
            self.broken("R7", f"task {task.key} changed after its end")
        if task.key in self._gone:
            self.broken("R7", f"task {task.key} was deleted and is back")
        for event in change.events:
            kind = type(event).__name__
            attempt = getattr(event, "attempt", None) or "-"
            self._history.add(f"commit {kind} {task.key} v{task.version} {attempt[:8]}")
            match event:
                case Placed():
                    self._placed(task, event)
                case Started():
                    self._started(event)
                case Ended() | Requeued():
                    self._over(task, event)
                case _:
                    pass
            records.follow(change, event, self._time())
        records.keep(task)
        for event in change.events:
            if isinstance(event, Placed):
                self._limits(task)

    def _placed(self, task: Task, event: Placed) -> None:
        key = task.key
        if self.paused:
            self.broken("paused", f"task {key} is placed while scheduling is paused")
        if key in self._stopped or TaskKey(key.id) in self._stopped:
            self.broken("R7", f"task {key} was cancelled and is placed again")
        if event.attempt in self._records.attempts:
            self.broken("R3", f"attempt {event.attempt[:8]} is placed twice")
        self._after(task)
        self._cards(task, event)

    def _after(self, task: Task) -> None:
        """It waited for what it said it would wait for."""
        if task.anyway:
            return
        for text in task.spec.after:
            dependency = parse_after(text)
            assert dependency is not None
            outcome = self._records.outcome(dependency.key)
            if not came_true(dependency.when, outcome):
                self.broken("after", f"task {task.key} was placed, but {text} ended as {outcome}")

    def _cards(self, task: Task, event: Placed) -> None:
        """R5, as recorded: what is held by others is not given away."""
        allocation, node = event.allocation, self._nodes[event.allocation.node]
        held = [a for a in self._records.live.values() if a.allocation.node == node.name]
        if sum(a.allocation.cpus for a in held) + allocation.cpus > node.cpus:
            self.broken("R5", f"task {task.key}: more cores than {node.name} has")
        if sum(a.allocation.memory_mib for a in held) + allocation.memory_mib > node.memory_mib:
            self.broken("R5", f"task {task.key}: more memory than {node.name} has")
        for gpu in allocation.gpus:
            holders = [a for _, a in self._records.on_card(node.name, gpu.uuid)]
            why = clash(task, gpu.slot, holders, self._gpus[gpu.uuid], self.policies)
            if why:
                self.broken("R5", f"task {task.key} on {gpu.uuid}: {why}")
        if len(allocation.gpus) != task.spec.gpus:
            self.broken("R5", f"task {task.key} wants {task.spec.gpus} cards, not as placed")

    def _limits(self, task: Task) -> None:
        """Quotas, queue maxima and caps, counting all that hold something: STARTING too."""
        policies = self.policies if self._time() - self._policy_since < 1.0 else self.policies[-1:]
        for whose, held, most in self._limits_of(task, policies):
            if most is not None and held > most:
                self.broken("quota", f"task {task.key}: {whose} holds {held} of {most} cards")
        array = array_of(task.spec)
        if array is not None and array.cap is not None:
            live = self._records.live_elements(task.id)
            if live > array.cap:
                self.broken("cap", f"array {task.id} has {live} live elements of {array.cap}")

    def _limits_of(
        self, task: Task, policies: Sequence[Policy]
    ) -> list[tuple[str, int, int | None]]:
        if not task.spec.gpus:
            return []
        name = task.spec.queue or "default"
        live = list(self._records.live.values())
        here = [a for a in live if (a.spec.queue or "default") == name]
        mine = [a for a in live if a.owner == task.owner]
        mine_here = [a for a in here if a.owner == task.owner]
        found: list[tuple[str, int, int | None]] = []
        for whose, some, most in (
            (task.owner, mine, [p.quotas.get(task.owner) for p in policies]),
            (f"queue {name}", here, [p.queue(name).most_cards for p in policies]),
            (
                f"{task.owner} in {name}",
                mine_here,
                [p.queue(name).most_cards_each for p in policies],
            ),
        ):
            limit = None if None in most else max(one for one in most if one is not None)
            found.append((whose, sum(len(a.allocation.gpus) for a in some), limit))
        return [*found, self._team_limit(task, policies)]

    def _team_limit(self, task: Task, policies: Sequence[Policy]) -> tuple[str, int, int | None]:
        """Of the policy that allows most: who is in the team is part of the policy too."""
        found: list[tuple[str, int, int | None]] = []
        for policy in policies:
            team = policy.teams.get(task.owner, "")
            held = sum(
                len(a.allocation.gpus)
                for a in self._records.live.values()
                if policy.teams.get(a.owner) == team
            )
            found.append((f"team {team}", held, policy.team_quotas.get(team)))
        return min(found, key=lambda one: -1 if one[2] is None else max(0, one[1] - one[2]))

    def _started(self, event: Started) -> None:
        if not self._truth.starts.get(event.attempt):
            self.broken("R4", f"attempt {event.attempt[:8]} is recorded as started, and did not")

    def _over(self, task: Task, event: Ended | Requeued) -> None:
        before = self._records.tasks.get(task.key)
        if event.attempt is None:
            self._over_without_attempt(task, before)
            return
        if event.attempt in self._truth.alive:
            self.broken("R5", f"task {task.key} is over and its processes still run")
        if event.attempt not in self._records.live:
            self.broken("R4", f"attempt {event.attempt[:8]} of {task.key} ended twice")
        why = self._wrong_end(event.attempt, event.end)
        if why:
            self.broken("R4", f"task {task.key}: {why}")
        if isinstance(event, Requeued) and before is not None:
            self._again(task, before, event)

    def _over_without_attempt(self, task: Task, before: Task | None) -> None:
        if before is not None and before.state in LIVE and not before.is_array:
            self.broken("R4", f"task {task.key} ended without its attempt")
        if task.is_array:
            self._array_over(task)

    def _array_over(self, array: Task) -> None:
        """Its counts are what became of its elements."""
        parsed = array_of(array.spec)
        assert parsed is not None
        rows = self._records.elements.get(array.id, {})
        counts: dict[str, int] = {}
        for element in rows.values():
            if element.end is None:
                self.broken("array", f"{array.id} ended before its element {element.key}")
                return
            counts[element.end.outcome] = counts.get(element.end.outcome, 0) + 1
        folded = len(parsed.indices) - len(rows)
        if folded:
            counts["cancelled"] = counts.get("cancelled", 0) + folded
        stopped = array.end is not None and array.end.outcome == "cancelled"
        if folded and not stopped:
            self.broken("array", f"{array.id} ended with {folded} elements that never ran")
        if counts != {k: v for k, v in (array.counts or {}).items() if v}:
            self.broken("array", f"{array.id} counts {array.counts}, its elements are {counts}")

    def _again(self, task: Task, before: Task, event: Requeued) -> None:
        """It runs again only when somebody wants that."""
        spec, end = task.spec, event.end
        stopping = before.state is State.STOPPING
        if stopping and before.stop_cause != "requeue":
            self.broken("R7", f"task {task.key} was stopped and waits again")
        if end is None or stopping:
            return
        if end.outcome == "lost":
            if not spec.requeue_on_loss:
                self.broken("R2", f"task {task.key} may have run, and runs again unasked")
        elif end.outcome not in ("failed", "timed_out"):
            self.broken("retry", f"task {task.key} {end.outcome} and runs again")
        elif task.retried > spec.retries:
            self.broken("retry", f"task {task.key} runs again for the {task.retried}th time")

    def _wrong_end(self, attempt: str, end: End | None) -> str:
        """R4: what is recorded of an attempt is what happened, or that nobody knows."""
        process = self._truth.processes.get(attempt)
        if end is None:
            return "it never ran, they say, but it did" if process is not None else ""
        if end.outcome == "lost":
            known = attempt not in self._truth.unknowable and not self._is_cut_off(attempt)
            return f"its end is known, and recorded as {end.reason}" if known else ""
        if end.outcome == "cancelled":
            return ""
        real = process.exit if process is not None else None
        if process is None:
            return "" if end.outcome == "failed" and end.exit_code is None else "it never ran"
        return differs(end, real)

    def _is_cut_off(self, attempt: str) -> bool:
        """It never began, and its node has another life now, in which it never will."""
        recorded = self._records.attempts[attempt]
        now = self._incarnation(recorded.allocation.node)
        return attempt not in self._truth.starts and recorded.incarnation != now

    # ---- what really happened

    def began(self, process: Process) -> None:
        self._history.add(f"begin {process.task} {process.attempt[:8]} on {process.node}")
        recorded = self._records.attempts.get(process.attempt)
        if self._truth.starts[process.attempt] > 1:
            self.broken("R3", f"attempt {process.attempt[:8]} of task {process.task} runs again")
        if recorded is None:
            self.broken("R3", f"attempt {process.attempt[:8]} runs and is not recorded")
            return
        if recorded.over is not None:
            self.broken("R7", f"attempt {process.attempt[:8]} begins after its recorded end")
        for other in self._truth.alive.values():
            if other is not process and self._same_task(other, recorded):
                self.broken("R2", f"task {recorded.key} runs twice at a time")
        if process.cards != tuple(gpu.uuid for gpu in recorded.allocation.gpus):
            self.broken("R5", f"task {recorded.key} runs on cards it does not hold")
        if recorded.spec.sweep:
            self._swept(process, recorded)
        self._crowded(process, recorded)

    def _swept(self, process: Process, recorded: Recorded) -> None:
        """Element k has the k-th combination, whoever sent it."""
        each = list(product(*recorded.spec.sweep.values()))[recorded.key.element]
        told = tuple(process.env.get(f"STOKER_SWEEP_{name}") for name in recorded.spec.sweep)
        if told != each or process.env.get("BOTH") != "/".join(each):
            self.broken("sweep", f"task {recorded.key} runs with {told}, not with {each}")

    def _same_task(self, other: Process, recorded: Recorded) -> bool:
        known = self._records.attempts.get(other.attempt)
        return known is not None and known.key == recorded.key

    def _crowded(self, process: Process, recorded: Recorded) -> None:
        """R5, in truth: an exclusive card is used by its holders alone."""
        for uuid in process.cards:
            others = self._truth.on_card(process.node, uuid)
            known = [self._records.attempts.get(p.attempt) for p in others if p is not process]
            exclusive = [a for a in known if a is not None and a.spec.mode == "exclusive"]
            if recorded.spec.mode == "exclusive":
                if len(exclusive) >= self._gpus[uuid].slots:
                    self.broken("R5", f"two tasks run on {uuid}, which is exclusive")
                if any(a is not None and a.spec.mode == "shared" for a in known):
                    self.broken("R5", f"an exclusive and a shared task run on {uuid}")
            elif recorded.spec.mode == "shared" and exclusive:
                self.broken("R5", f"a shared and an exclusive task run on {uuid}")

    def at_limit(self, process: Process, limit_s: float) -> None:
        """A limit counts only if it is the one that is recorded, or the word could not be there."""
        self._history.add(f"limit {process.task} {process.attempt[:8]} {limit_s:g}")
        recorded = self._records.attempts.get(process.attempt)
        if recorded is None or recorded.over is not None or recorded.limit_s == limit_s:
            return
        longer = recorded.limit_s is None or recorded.limit_s > limit_s
        if longer and self._could_have_heard(process.node, recorded.limit_since):
            self.broken("limit", f"task {recorded.key} was stopped after {limit_s:g} s, too early")

    def over(self, process: Process) -> None:
        self._history.add(f"over {process.task} {process.attempt[:8]} on {process.node}")

    # ---- what the server is about to do

    def asked(self, work: str, argument: Any, usable: Callable[[str, str], str]) -> None:
        """A call is handed to the writer. `usable` says what its view knows against a card."""
        if work != "_record":
            return
        for change in argument:
            for event in change.events:
                if isinstance(event, Placed):
                    self._destination(change.task, event, usable)

    def _destination(self, task: Task, event: Placed, usable: Callable[[str, str], str]) -> None:
        node = event.allocation.node
        if node in self._drained:
            self.broken("drained", f"task {task.key} is placed on {node}, which is drained")
        cards = [gpu.uuid for gpu in event.allocation.gpus] or [""]
        for uuid in cards:
            why = usable(node, uuid)
            if why and not (why == "foreign" and task.spec.mode != "exclusive"):
                self.broken("drained", f"task {task.key} is placed on {node}: {why}")

    # ---- now and then

    def stops_happen(self, has_heard: Callable[[str, str, float], bool | None]) -> None:
        """R7: what was to be stopped is told so, once its node can be talked to.

        `has_heard` says whether a node has had the order, None when it could not have yet.
        """
        for id, attempt in self._records.live.items():
            if attempt.stop_asked is None or id not in self._truth.alive:
                continue
            if has_heard(attempt.allocation.node, id, attempt.stop_asked) is False:
                self.broken("R7", f"task {attempt.key} was to be stopped and runs on")

    def limits_hold(self, is_supervised: Callable[[str, str], bool]) -> None:
        """Nothing runs past its limit for longer than its node needs to hear of it."""
        for id, attempt in self._records.live.items():
            process = self._truth.alive.get(id)
            if process is None or process.exit is not None:  # only what it left behind is there
                continue
            if attempt.limit_s is None or attempt.stop_asked is not None:
                continue
            ends = max(process.began + attempt.limit_s, attempt.limit_since)
            heard = self._could_have_heard(process.node, ends + attempt.spec.grace_s)
            if heard and not process.stuck and is_supervised(process.node, id):
                self.broken("limit", f"task {attempt.key} runs past its limit")

    def knows_what_is_recorded(
        self, taken: set[str], live: set[str], in_line: set[TaskKey]
    ) -> None:
        """What a server holds in memory while it does nothing is what is recorded."""
        recorded = set(self._records.live)
        if taken != recorded:
            self.broken("memory", f"room is taken for {_some(taken ^ recorded)}, not as recorded")
        if live != recorded:
            self.broken("memory", f"{_some(live ^ recorded)} are alive, not as recorded")
        queued = {
            task.key
            for task in self._records.tasks.values()
            if task.state is State.QUEUED and not is_array(task.spec)
        }
        if in_line != queued:
            self.broken("memory", f"{_some(in_line ^ queued)} are in line, not as recorded")

    def ends_are_recorded(self) -> None:
        """R9: what ended a while ago is recorded as ended."""
        for id, attempt in self._records.live.items():
            process = self._truth.processes.get(id)
            if process is not None and process.over and process.over < self._time() - RECORDED_S:
                self.broken("R9", f"task {attempt.key} ended, and nobody records it")

    def logs_are_kept(self, has: Callable[[str], bool]) -> None:
        """Of everything that ended in an orderly way, the output is here."""
        for id, attempt in self._records.attempts.items():
            process = self._truth.processes.get(id)
            orderly = process is not None and process.exit and id not in self._truth.unknowable
            if (
                orderly
                and attempt.over
                and attempt.key not in self._records.deleted
                and not has(id)
            ):
                self.broken("log", f"the output of attempt {id[:8]} of {attempt.key} is lost")

    def compare(self, stored: Mapping[TaskKey, Task], problems: Sequence[str]) -> None:
        """R1 after a restart and at the end: the database says what was committed."""
        for problem in problems:
            self.broken("store", problem)
        for key in self._accepted:
            if key not in stored and key not in self._may_be_gone:
                self.broken("R1", f"task {key} was acknowledged and is gone")
        for key, task in self._records.tasks.items():
            if stored.get(key) != task:
                self.broken("R1", f"task {key} was recorded otherwise: {stored.get(key)}")
        for task in stored.values():
            if task.key not in self._records.tasks:
                self.broken("R1", f"task {task.key} came from nowhere")


def _some(things: set[Any]) -> str:
    return ", ".join(str(thing)[:8] for thing in sorted(things)[:5])
