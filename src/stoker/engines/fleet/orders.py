"""Our orders and a runner's news, translated into each other's words. Pure.

`FROM_SPEC` and `NOT_IN_LAUNCH` together name every field of TaskSpec; a test says so.
"""

from __future__ import annotations

from datetime import UTC, datetime

from stoker.domain.attempt import Attempt
from stoker.domain.key import PLAIN, TaskKey, parse_key
from stoker.domain.node import Gpu, Incarnation, Node
from stoker.domain.outcome import End, end_from_exit
from stoker.domain.task import TaskSpec
from stoker.engines.base import (
    AttemptEnded,
    AttemptLost,
    AttemptNeverRan,
    CardUse,
    ExtendOrder,
    LaunchOrder,
    NodeSampled,
    PastAttempt,
    StopOrder,
)
from stoker.runner import protocol

NEVER_BEGUN = ("revoked", "requeue")
"""Causes of the end of a part that has no claim: it was stopped before it began."""
FROM_SPEC = frozenset(
    {
        "command", "gpu_id_args", "workdir", "env", "environment", "stdout", "stderr", "cpus", "memory_mib",
        "time_limit_s", "grace_s",
    }
)  # fmt: skip
NOT_IN_LAUNCH = frozenset(
    {
        # decided before the launch
        "gpus", "gpu_ids", "gpu_model", "mode", "gpu_memory_mib", "gpu_free_percent", "nodes",
        "node", "queue", "urgent", "priority", "after", "start_after", "array", "sweep", "hold",
        # decided after the end
        "retries", "requeue_on_loss", "notify",
        # only shown
        "name", "description",
        # not yet
        "lease_s",
    }
)  # fmt: skip


def to_launch(order: LaunchOrder, epoch: int) -> protocol.Launch:
    attempt, spec = order.attempt, order.spec
    argv, shell = command_with_ids(spec, attempt)
    return protocol.Launch(
        attempt=attempt.id,
        rank=0,
        epoch=epoch,
        number=attempt.launch_number,
        incarnation=_incarnation(attempt),
        task=str(attempt.task_id),
        node=attempt.allocation.node,
        workdir=spec.workdir,
        argv=argv,
        shell=shell,
        env=environment(spec, attempt),
        environment=spec.environment,
        stdout=spec.stdout,
        stderr=spec.stderr,
        gpus=[protocol.GpuHold(gpu.index, gpu.uuid) for gpu in attempt.allocation.gpus],
        cpus=spec.cpus,
        memory_mib=spec.memory_mib,
        time_limit_s=spec.time_limit_s,
        grace_s=spec.grace_s,
        account=order.account,
        whose=_whose(order),
    )


def to_stop(order: StopOrder, epoch: int) -> protocol.Stop:
    attempt = order.attempt
    return protocol.Stop(
        attempt=attempt.id,
        rank=0,
        epoch=epoch,
        number=attempt.launch_number,
        incarnation=_incarnation(attempt),
        cause=order.cause,
        grace_s=order.grace_s,
    )


def to_extend(order: ExtendOrder, epoch: int) -> protocol.Extend:
    attempt = order.attempt
    return protocol.Extend(
        attempt=attempt.id,
        rank=0,
        epoch=epoch,
        number=attempt.launch_number,
        incarnation=_incarnation(attempt),
        time_limit_s=order.time_limit_s,
        serial=order.serial,
    )


def has_heard(order: ExtendOrder, seen: protocol.Seen) -> bool:
    """Whether a part that starts or runs has this limit already, or can never have it."""
    return seen.limit_s in (-1, order.time_limit_s or 0)


def to_forget(attempt: Attempt, epoch: int) -> protocol.Forget:
    return protocol.Forget(
        attempt=attempt.id,
        rank=0,
        epoch=epoch,
        number=attempt.launch_number,
        incarnation=_incarnation(attempt),
    )


def command_with_ids(spec: TaskSpec, attempt: Attempt) -> tuple[list[str], str]:
    """(exact arguments, "") or ([], shell text), with the physical card numbers if asked for.

    `--gpu=` gives one argument `--gpu=0,1`; `--gpu ` (with a space) gives two.
    """
    ids = ",".join(str(gpu.index) for gpu in attempt.allocation.gpus)
    if isinstance(spec.command, str):
        line = spec.command.rstrip("\n")
        return [], f"{line} {spec.gpu_id_args}{ids}" if spec.gpu_id_args else spec.command
    argv = list(spec.command)
    if spec.gpu_id_args.endswith(" "):
        argv += [*spec.gpu_id_args.split(), ids]
    elif spec.gpu_id_args:
        argv.append(spec.gpu_id_args + ids)
    return argv, ""


def environment(spec: TaskSpec, attempt: Attempt) -> dict[str, str]:
    """What the task asks for; an element also learns which one it is."""
    if attempt.task_element == PLAIN:
        return spec.env
    return {**spec.env, "STOKER_ARRAY_INDEX": str(attempt.task_element)}


def node_from(name: str, hello: protocol.Hello) -> Node:
    return Node(
        name=name,
        cpus=hello.cpus,
        memory_mib=hello.memory_mib,
        gpus=tuple(
            Gpu(gpu.index, gpu.uuid, gpu.model, gpu.memory_mib, gpu.simulated)
            for gpu in sorted(hello.gpus, key=lambda gpu: gpu.index)
        ),
        limits=tuple(hello.limits),
        gpu_error=hello.gpu_error,
    )


def past_from(past: protocol.Past, incarnation: protocol.Incarnation) -> PastAttempt:
    seen = past.seen
    task, submitted_at = _of_whom(past.whose)
    boot_id = past.boot_id or incarnation.boot_id
    return PastAttempt(
        attempt=seen.attempt,
        number=seen.number,
        incarnation=Incarnation(boot_id, incarnation.spool_id),
        epoch=past.epoch,
        task=task,
        submitted_at=submitted_at,
        gpus=tuple(seen.gpus),
        over=_over(seen),
        revoked=task is None and seen.exit is not None and seen.exit.cause in NEVER_BEGUN,
    )


def _over(seen: protocol.Seen) -> AttemptEnded | AttemptLost | AttemptNeverRan | None:
    if seen.state == "ended" and seen.exit is not None:
        return ended_from(seen.attempt, seen.exit, seen.started_at)
    if seen.state == "lost":
        evidence = seen.evidence or "supervisor_died"
        return AttemptLost(attempt=seen.attempt, at=datetime.now(UTC), evidence=evidence)
    return AttemptNeverRan(attempt=seen.attempt) if seen.state == "never_ran" else None


def ended_from(
    attempt: str, exit: protocol.Exit, started_at: float, *, log: bytes | None = None
) -> AttemptEnded:
    """An end that a node has recorded."""
    ran = started_at > 0 and exit.cause != "refused"
    return AttemptEnded(
        attempt=attempt,
        at=instant(exit.at),
        end=end_from(exit),
        started_at=instant(started_at) if ran else None,
        requeue=exit.cause == "requeue",
        log=log,
    )


def _whose(order: LaunchOrder) -> str:
    if order.submitted_at is None:
        return ""
    return f"{order.attempt.task}@{order.submitted_at.isoformat()}"


def _of_whom(whose: str) -> tuple[TaskKey | None, datetime | None]:
    """What `_whose` has made; (None, None) for anything else."""
    name, _, at = whose.partition("@")
    key = parse_key(name)
    try:
        return (None, None) if key is None else (key, datetime.fromisoformat(at))
    except ValueError:
        return None, None


def incarnation_from(incarnation: protocol.Incarnation) -> Incarnation:
    return Incarnation(incarnation.boot_id, incarnation.spool_id)


def sample_from(node: str, sample: protocol.Sample) -> NodeSampled:
    return NodeSampled(
        node=node,
        at=instant(sample.at),
        load1=sample.load1,
        memory_available_mib=sample.memory_available_mib,
        disk_free_mib=sample.disk_free_mib,
        cards=tuple(_use_from(card) for card in sample.gpus),
    )


def _use_from(card: protocol.GpuSample) -> CardUse:
    attempts: dict[str, int] = {}
    for process in card.processes:
        if process.part:
            attempt = process.part.partition(".")[0]
            attempts[attempt] = attempts.get(attempt, 0) + process.memory_mib
    foreign = [process for process in card.processes if not process.part]
    return CardUse(
        uuid=card.uuid,
        memory_used_mib=card.memory_used_mib,
        utilisation=card.utilisation,
        temperature_c=card.temperature_c,
        power_w=card.power_w,
        foreign=tuple(f"{one.account}:{one.pid}:{one.command}" for one in foreign),
        foreign_mib=sum(one.memory_mib for one in foreign),
        attempts=attempts,
    )


def end_from(exit: protocol.Exit) -> End:
    return end_from_exit(
        cause=exit.cause,
        code=exit.code,
        signal=exit.signal,
        reason=exit.reason,
        detail=exit.detail,
        ran_s=exit.ran_s,
        cpu_s=exit.cpu_s,
        max_rss_mib=exit.max_rss_mib,
    )


def instant(unix: float) -> datetime:
    """A node's wall clock; only shown, never compared."""
    try:
        return datetime.fromtimestamp(unix, UTC)
    except (ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(0, UTC)


def _incarnation(attempt: Attempt) -> protocol.Incarnation:
    return protocol.Incarnation(attempt.incarnation.boot_id, attempt.incarnation.spool_id)
