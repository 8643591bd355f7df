"""What crosses between the server and a runner: plain dataclasses, one JSON object per line.

This is the only definition: the server reads the same classes with `msgspec.convert`, the runner
with `read()` below. Unknown keys are ignored on both sides, so that two versions can talk; a new
field needs a default. Python 3.8 grammar. See docs/explanation/protocol.md.

Server to runner: Greeting, Launch, Stop, Extend, Forget, ListParts, Recall, Sweep, ReadLog, Call.
Runner to server: Hello, Seen, Listing, Recalled, Refused, Swept, LogData, Answer, Sample.
A line is {"type": <class name>, ...fields}.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional

VERSION = 1
MARKER = "STOKER_ATTEMPT"
"""The environment variable of every process of an attempt; its value is `part_key`."""


def part_key(attempt: str, rank: int) -> str:
    """The key of everything downstream: record, log, marker, cgroup."""
    return f"{attempt}.{rank}"


@dataclass(frozen=True)
class Incarnation:
    """Which life of a node: a reboot or a new spool makes another one."""

    boot_id: str
    spool_id: str


@dataclass(frozen=True)
class GpuHold:
    """A card given to an attempt. The UUID is its identity, the index (PCI order) is shown."""

    index: int
    uuid: str


# ---- server to runner


@dataclass(frozen=True)
class Greeting:
    """First line of a connection. The runner answers Hello, then a complete Listing."""

    epoch: int
    version: int = VERSION


@dataclass(frozen=True)
class Launch:
    """Ensure that this part runs. May be repeated any number of times."""

    attempt: str
    rank: int
    epoch: int
    number: int
    incarnation: Incarnation
    task: str
    node: str
    workdir: str
    argv: List[str] = field(default_factory=list)
    """Exact arguments; empty when `shell` is set."""
    shell: str = ""
    """A line or script for the owner's shell."""
    env: Dict[str, str] = field(default_factory=dict)
    environment: str = ""
    """A conda environment's name, the prefix of one, or a virtual environment's folder."""
    stdout: str = ""
    """"" = our own log; a path, `+path` (append), or `discard`."""
    stderr: str = "merge"
    """`merge` = wherever stdout goes; else as stdout ("" = our own log)."""
    gpus: List[GpuHold] = field(default_factory=list)
    account: str = ""
    """The unix account it runs as; "" = the runner's own."""
    cpus: Optional[int] = None
    memory_mib: Optional[int] = None
    time_limit_s: Optional[int] = None
    grace_s: float = 10.0
    whose: str = ""
    """The task and when it was handed over: a server whose records are older knows it again."""


@dataclass(frozen=True)
class Stop:
    """End this part: TERM, grace, KILL. Idempotent. Without a record the number is revoked."""

    attempt: str
    rank: int
    epoch: int
    number: int
    incarnation: Incarnation
    cause: str = "cancel"
    grace_s: float = 10.0


@dataclass(frozen=True)
class Extend:
    """This part's time limit is another one. Idempotent; without a record nothing is done, and the
    next listing shows that it was not. An older word never takes the place of a newer one."""

    attempt: str
    rank: int
    epoch: int
    number: int
    incarnation: Incarnation
    time_limit_s: Optional[int] = None
    """From its start; None = none."""
    serial: int = 0
    """Within an epoch, the higher one is the newer."""


@dataclass(frozen=True)
class Forget:
    """The server has committed this end and copied the log: the spool may drop it."""

    attempt: str
    rank: int
    epoch: int
    number: int
    incarnation: Incarnation


@dataclass(frozen=True)
class ListParts:
    """Ask for a complete Listing now."""

    epoch: int


@dataclass(frozen=True)
class Recall:
    """What has happened above this launch number? Asked after a restore. Answered by Recalled."""

    epoch: int
    above: int


@dataclass(frozen=True)
class Sweep:
    """End every process of this part (its spool is gone, its supervisor may live)."""

    attempt: str
    rank: int
    epoch: int


@dataclass(frozen=True)
class ReadLog:
    """Bytes of a part's output. Answered by LogData with the same id."""

    id: int
    attempt: str
    rank: int
    stream: str
    """`stdout` or `stderr`."""
    offset: int
    limit: int


@dataclass(frozen=True)
class Call:
    """Ask for something that is no order: done by a process that becomes the account.

    Answered by Answer with the same id, at the latest after `timeout_s`.
    """

    id: int
    verb: str
    """One of `calls.VERBS`."""
    account: str = ""
    """"" = the runner's own."""
    args: Dict[str, str] = field(default_factory=dict)
    timeout_s: float = 10.0


# ---- runner to server


@dataclass(frozen=True)
class Gpu:
    """A card as NVML (or the simulation) lists it."""

    index: int
    uuid: str
    model: str
    memory_mib: int
    simulated: bool = False


@dataclass(frozen=True)
class Hello:
    """Who answers: sent once per connection."""

    incarnation: Incarnation
    build: str
    """Hash of the runner's file: another one than the server's own = replace it."""
    pid: int
    epoch: int
    """The highest seen. Higher than the server's own = another server has taken over."""
    highest: int
    """The highest launch number seen on this spool; the server continues above it."""
    hostname: str
    cpus: int
    memory_mib: int
    gpus: List[Gpu] = field(default_factory=list)
    gpu_error: str = ""
    """Why NVML lists nothing, in its own words; "" when it answered."""
    limits: List[str] = field(default_factory=list)
    """What is enforced here: any of `cpus`, `memory`."""
    account: str = ""
    root: bool = False
    version: int = VERSION


@dataclass(frozen=True)
class Exit:
    """How a part ended, as its supervisor (or the runner for a dead one) saw it."""

    cause: str
    """exit | limit | cancel | requeue | lease | refused | revoked | aborted."""
    code: Optional[int] = None
    signal: Optional[int] = None
    reason: str = ""
    """A code of reason.py that says why in more detail, e.g. `gpu_memory`; "" = none found."""
    detail: str = ""
    """The word or line that the reason is about, e.g. the missing module."""
    at: float = 0.0
    """Wall clock, unix seconds; only shown."""
    ran_s: float = 0.0
    cpu_s: float = 0.0
    max_rss_mib: int = 0


@dataclass(frozen=True)
class Seen:
    """One part, as its record says now. Pushed at a change, and listed in every Listing."""

    attempt: str
    rank: int
    number: int
    state: str
    """starting | running | ended | lost | never_ran (see PROTOCOL 4)."""
    started_at: float = 0.0
    """Wall clock at exec, unix seconds; 0 = not yet."""
    pid: int = 0
    exit: Optional[Exit] = None
    evidence: str = ""
    """With `lost`: supervisor_died | rebooted."""
    stuck: str = ""
    """Why it cannot be ended (a process that ignores KILL); its cards stay held."""
    log: Optional[str] = None
    """With `ended`: the whole of our own log, base64, when it is small (<= 8 KiB)."""
    gpus: List[str] = field(default_factory=list)
    """UUIDs of the cards it was given."""
    limit_s: int = -1
    """While it starts or runs: its time limit as it is now; 0 = none, -1 = not known (its supervisor
    is of a version that cannot be told another one)."""


@dataclass(frozen=True)
class Listing:
    """Every part in the spool. What is not in it has no record."""

    incarnation: Incarnation
    highest: int
    parts: List[Seen] = field(default_factory=list)


@dataclass(frozen=True)
class Past:
    """A part that was launched, whether it has a record still or its end was forgotten."""

    seen: Seen
    whose: str = ""
    """As in its Launch; "" for one that an older version launched."""
    boot_id: str = ""
    epoch: int = 0


@dataclass(frozen=True)
class Recalled:
    """Answer to Recall: everything that was launched above that number, as far as it is known."""

    incarnation: Incarnation
    parts: List[Past] = field(default_factory=list)
    unexplained: List[int] = field(default_factory=list)
    """Numbers that were used, but nobody remembers for what. Not all of them if there are many."""


@dataclass(frozen=True)
class Refused:
    """A Launch, Stop, Extend or Forget that was not carried out."""

    attempt: str
    rank: int
    number: int
    why: str
    """epoch | incarnation | forgotten (its bit is set and there is no record)."""
    exit: Optional[Exit] = None
    """With `forgotten`: its end from ended.jsonl, when it is there."""
    state: str = ""
    """With `forgotten`: ended | lost | never_ran, as ended.jsonl says; "" = it never began."""


@dataclass(frozen=True)
class Swept:
    """Answer to Sweep: how many processes are left (0 = none, it is safe to say lost)."""

    attempt: str
    rank: int
    left: int


@dataclass(frozen=True)
class LogData:
    """Answer to ReadLog. `offset` may be above the one asked for: the middle was not kept."""

    id: int
    offset: int
    size: int
    data: str = ""
    """base64."""
    error: str = ""
    """"" | missing | denied | discarded | the system's own words."""


@dataclass(frozen=True)
class Answer:
    """Answer to Call."""

    id: int
    result: Dict[str, Any] = field(default_factory=dict)
    error: str = ""
    """"" | unknown_verb | busy | timeout | account_unknown | account_not_allowed (these two with
    `detail` in the result) | the system's own words."""


@dataclass(frozen=True)
class GpuProcess:
    """A process that uses a card. `part` is "" for a foreign one."""

    pid: int
    account: str
    memory_mib: int
    part: str = ""
    command: str = ""


@dataclass(frozen=True)
class GpuSample:
    uuid: str
    memory_used_mib: int
    utilisation: int
    temperature_c: Optional[int] = None
    power_w: Optional[int] = None
    processes: List[GpuProcess] = field(default_factory=list)


@dataclass(frozen=True)
class Sample:
    """What a node looks like now; sent every few seconds."""

    at: float
    load1: float
    memory_available_mib: int
    disk_free_mib: int
    """Of the file system that holds the spool."""
    gpus: List[GpuSample] = field(default_factory=list)


# ---- lines

_NESTED = {
    "incarnation": Incarnation,
    "exit": Exit,
    "seen": Seen,
}
_NESTED_LISTS = {
    (Launch, "gpus"): GpuHold,
    (Hello, "gpus"): Gpu,
    (Listing, "parts"): Seen,
    (Recalled, "parts"): Past,
    (Sample, "gpus"): GpuSample,
    (GpuSample, "processes"): GpuProcess,
}
MESSAGES = {
    cls.__name__: cls
    for cls in (
        Greeting, Launch, Stop, Extend, Forget, ListParts, Recall, Sweep, ReadLog, Call,
        Hello, Seen, Listing, Recalled, Refused, Swept, LogData, Answer, Sample,
    )
}  # fmt: skip


def line(message: Any) -> bytes:
    """One message as it travels: JSON and a newline."""
    body = {"type": type(message).__name__, **vars(message)}
    return json.dumps(body, separators=(",", ":"), default=vars).encode("ascii") + b"\n"


def read(raw: bytes) -> Any:
    """The message in one line. Raises ValueError for anything that is not one."""
    try:
        body = json.loads(raw)
        return build(MESSAGES[body.pop("type")], body)
    except (KeyError, TypeError, AttributeError, UnicodeDecodeError) as error:
        raise ValueError(f"not a message: {error!r}") from error


def build(cls: Any, body: Dict[str, Any]) -> Any:
    """An instance of `cls` from plain JSON values; unknown keys are ignored."""
    values = {}
    for f in dataclasses.fields(cls):
        if f.name not in body:
            continue
        value = body[f.name]
        if value is not None and f.name in _NESTED:
            value = build(_NESTED[f.name], value)
        elif (cls, f.name) in _NESTED_LISTS:
            value = [build(_NESTED_LISTS[cls, f.name], item) for item in value]
        values[f.name] = value
    return cls(**values)
