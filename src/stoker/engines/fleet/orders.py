"""Our orders and a runner's news, translated into each other's words. Pure.

`FROM_SPEC` and `NOT_IN_LAUNCH` together name every field of TaskSpec; a test says so.
"""

from __future__ import annotations

from datetime import UTC, datetime

from stoker.domain.attempt import Attempt
from stoker.domain.key import PLAIN
from stoker.domain.node import Gpu, Incarnation, Node
from stoker.domain.outcome import End, end_from_exit
from stoker.domain.task import TaskSpec
from stoker.engines.base import CardUse, LaunchOrder, NodeSampled, StopOrder
from stoker.runner import protocol

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
