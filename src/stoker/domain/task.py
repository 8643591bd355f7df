"""The one declaration of what a person may say about a task, and what everybody derives from it.

API body, OpenAPI, CLI options, `#STOKER` lines, SDK, reference docs and the stored column all come
from `TaskSpec` through `fields()`. Values that a type cannot express are checked by `checks.py`.
Never `omit_defaults`: stored and answered specs are complete, so that a later default changes no
old task.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator
from functools import cache
from typing import Annotated, Any, Literal, NamedTuple

from msgspec import Meta, Struct, field, structs
from typing_extensions import override

MOST_GPUS = 1024
MOST_ARRAY_TEXT = 20_000


def about(text: str, *, short: str = "", unit: str = "", **bounds: Any) -> Meta:
    """What a field means. `short` and `unit` are for the command line, bounds are msgspec's."""
    return Meta(description=text, extra={"short": short, "unit": unit}, **bounds)


class TaskSpec(Struct, frozen=True, kw_only=True):
    """What a person says about a task. Order here is the order of options and docs."""

    command: Annotated[
        tuple[str, ...] | str,
        about("What to run: exact arguments (a list), or a line or script for your shell (text)"),
    ]
    name: Annotated[str, about("Shown in lists", short="-n", max_length=200)] = ""
    description: Annotated[str, about("A note for yourself and others", max_length=4000)] = ""
    workdir: Annotated[str, about("Working folder, an absolute path", short="-w")] = "/"
    env: Annotated[
        dict[str, str], about("Environment variable, may be given several times", short="-e")
    ] = field(default_factory=dict)
    environment: Annotated[
        str,
        about(
            "Environment it runs in: a conda name or prefix, a virtual environment's folder, "
            "or `none`; `submit` takes the active one unless told"
        ),
    ] = ""
    stdout: Annotated[
        str,
        about(
            "Output goes to this path (+path appends), `discard`, or Stoker's own log", short="-o"
        ),
    ] = ""
    stderr: Annotated[
        str,
        about("Error output goes to this path (+path appends), `discard`, or `merge` with stdout"),
    ] = "merge"
    gpus: Annotated[int, about("GPUs per node", short="-g", ge=0, le=MOST_GPUS)] = 0
    gpu_ids: Annotated[tuple[int, ...], about("Exactly these cards, by index in PCI order")] = ()
    gpu_id_args: Annotated[
        str, about("Text before the card numbers added to the command, for example `--gpu=`")
    ] = ""
    gpu_model: Annotated[tuple[str, ...], about("Any of these GPU models")] = ()
    mode: Annotated[Literal["exclusive", "shared", "reuse"], about("How GPUs are held")] = (
        "exclusive"
    )
    gpu_memory_mib: (
        Annotated[int, about("GPU memory needed per card, with mode shared", unit="MiB", ge=1)]
        | None
    ) = None
    gpu_free_percent: (
        Annotated[int, about("Idle share needed per card, with mode shared", ge=0, le=100)] | None
    ) = None
    cpus: Annotated[int, about("CPU cores", ge=1, le=4096)] | None = None
    memory_mib: (
        Annotated[int, about("Host memory", short="-m", unit="MiB", ge=1, le=2**30)] | None
    ) = None
    nodes: Annotated[int, about("Nodes; more than one starts them together", ge=1, le=1024)] = 1
    node: Annotated[str, about("Only on this node")] = ""
    queue: Annotated[str, about("Queue", short="-q")] = ""
    urgent: Annotated[bool, about("Before all normal tasks of its queue")] = False
    priority: Annotated[
        int, about("Order among your own tasks, higher first", short="-p", ge=-1000, le=1000)
    ] = 0
    time_limit_s: (
        Annotated[int, about("Stopped after this time", short="-t", unit="s", ge=1, le=10**9)]
        | None
    ) = None
    grace_s: Annotated[
        int, about("Time between the request to stop and the kill", unit="s", ge=0, le=86400)
    ] = 10
    lease_s: (
        Annotated[
            int, about("Ends by itself when its node has been cut off this long", unit="s", ge=1)
        ]
        | None
    ) = None
    after: Annotated[
        tuple[str, ...], about("Wait for these tasks: `12:ok`, `12:notok`, or `12` for any end")
    ] = ()
    start_after: Annotated[str, about("Not before this time, ISO 8601 with a time zone")] = ""
    retries: Annotated[int, about("Run again this often when it fails", ge=0, le=1000)] = 0
    requeue_on_loss: Annotated[
        bool, about("Run again when its end is unknown; only for tasks that may run twice")
    ] = False
    array: Annotated[
        str, about("Indices of an array, for example `0-9%4`", max_length=MOST_ARRAY_TEXT)
    ] = ""
    sweep: Annotated[
        dict[str, tuple[str, ...]],
        about("Values for {name} in the command; an array of all combinations"),
    ] = field(default_factory=dict)
    notify: Annotated[
        tuple[str, ...],
        about(
            "When you are told: `started`, `finished`, `failed`, `waiting`, `limit`, `all` or `none`; "
            "`failed:feishu` over that channel only. Instead of your usual wishes"
        ),
    ] = ()
    hold: Annotated[bool, about("Wait until released by a person")] = False

    @override
    def __repr__(self) -> str:
        """What was said, and nothing that was not; values of variables may be secrets."""
        said = {f.name: getattr(self, f.name) for f in fields() if self._says(f)}
        if "env" in said:
            said["env"] = dict.fromkeys(said["env"], "…")
        return f"TaskSpec({', '.join(f'{name}={value!r}' for name, value in said.items())})"

    def _says(self, field: Field) -> bool:
        return field.name == "command" or getattr(self, field.name) != field.default


NOT_YET: frozenset[str] = frozenset({"nodes", "lease_s"})
"""Declared, refused off their default: each later feature removes its own."""


NO_ENVIRONMENT = ("", "none")
"""Values of `environment` for a task that runs in none."""


class Field(NamedTuple):
    """One field of the declaration, taken apart."""

    name: str
    kind: Any
    """The type without Annotated and `| None`."""
    meta: Meta
    default: Any
    optional: bool
    """None means: not asked for."""

    @property
    def unit(self) -> str:
        return str((self.meta.extra or {})["unit"])

    @property
    def short(self) -> str:
        return str((self.meta.extra or {})["short"])


@cache
def _fields() -> tuple[Field, ...]:
    return tuple(_take_apart(info) for info in structs.fields(TaskSpec))


def fields() -> Iterator[Field]:
    """Every field of a task, in the order of the declaration."""
    return iter(_fields())


def _take_apart(info: structs.FieldInfo) -> Field:
    union = typing.get_origin(info.type) in (typing.Union, types.UnionType)
    annotated = typing.get_args(info.type)[0] if union else info.type
    kind, meta = typing.get_args(annotated)
    default = info.default_factory() if callable(info.default_factory) else info.default
    return Field(info.name, kind, meta, default, union)
