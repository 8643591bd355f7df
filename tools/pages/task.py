"""A task's fields and its environment, from the one declaration and from the runner itself."""

from __future__ import annotations

import typing

from stoker import text
from stoker.cli.options import EXAMPLES, flag_of
from stoker.domain.checks import RESERVED_ENV
from stoker.domain.task import NOT_YET, Field, fields
from stoker.runner.account import Account
from stoker.runner.environ import environment
from stoker.runner.protocol import Incarnation, Launch

from .markdown import names, table


def page() -> str:
    now = [field for field in fields() if field.name not in NOT_YET]
    later = [field for field in fields() if field.name in NOT_YET]
    head = ("field", "option", "kind", "default", "meaning", "中文")
    return "\n".join(
        [
            "# A task's fields",
            "",
            "Made from `TaskSpec` in `domain/task.py`, the one declaration that the API's body, the "
            "options of `stoker submit`, `#STOKER` lines and the records come from.",
            "",
            "## Working now",
            "",
            *table(head, map(_field_row, now)),
            "",
            "`command` has three forms on the command line: exact arguments after `--`, a line for "
            "your shell with `-c`, or a script file ([script.md](../howto/script.md)). In the API a "
            "list is exact arguments and a text is for the shell.",
            "",
            "`gpu_id_args` adds the numbers of the cards to the command: `--gpu=` becomes "
            "`--gpu=0,1`, and with a space at its end (`--gpu `) it becomes two arguments.",
            "",
            "`array` gives each element its index as `STOKER_ARRAY_INDEX`; `%4` lets four run at a "
            "time. With `sweep` the elements are all combinations of its values, the last name varying "
            "fastest, and `array` may be left out, be `%4`, or pick some of them by number. `after`, "
            "arrays and sweeps: [arrays.md](../howto/arrays.md); `mode`, `gpu_memory_mib` and "
            "the order of tasks: [scheduling.md](../explanation/scheduling.md).",
            "",
            "`start_after` is ISO 8601 with a zone; on the command line also `22:00`, `2h`, or without a "
            "zone, which is then the terminal's.",
            "",
            f"Options with a unit take it in the value: times as {EXAMPLES['s']}; sizes as "
            f"{EXAMPLES['MiB']}. A bare number is in the field's own unit. On the command line "
            "paths may be relative to the working folder; in the API `workdir` is absolute.",
            "",
            "## Declared, and refused for now",
            "",
            "These belong to features that are not there yet. Any value but the default is refused "
            "with `not_yet`, so that no wish is silently ignored.",
            "",
            *table(head, map(_field_row, later)),
            "",
            "## Environment of a task",
            "",
            "A command sees these variables and what its `env` adds, not the environment of the "
            "terminal that started the server ([why](../decisions/0008-a-short-base-environment.md)).",
            "",
            *table(("variable", "value"), ((f"`{n}`", w) for n, w in _environment().items())),
            "",
            "An element of an array also sees `STOKER_ARRAY_INDEX`, its index; one of a sweep its values, each "
            "as `STOKER_SWEEP_` and the name.",
            "",
            "A conda or virtual environment (`environment`) adds its own: "
            "[environments.md](../howto/environments.md).",
            "",
            "From the environment the runner was started with, when they are set there: `TZ`, "
            "`LC_*`, and for its own account `LD_LIBRARY_PATH`, `TMPDIR`, `XDG_RUNTIME_DIR`.",
            "",
            f"{names(sorted(RESERVED_ENV))} and everything that begins with `STOKER_` cannot be "
            "given in `env`; the rest can be replaced.",
            "",
        ]
    )


def _field_row(field: Field) -> tuple[str, ...]:
    option = ", ".join(f"`{name}`" for name in (field.short, flag_of(field.name)) if name)
    if field.name == "command":
        option = "`-c`, or after `--`"
    elif field.kind is bool:
        option = f"`{flag_of(field.name)}`"
    return (
        f"`{field.name}`",
        option,
        _kind(field),
        _default(field),
        field.meta.description or "",
        text.about_field(f"field.{field.name}", "–", "zh"),
    )


def _kind(field: Field) -> str:
    origin, meta = typing.get_origin(field.kind), field.meta
    if origin is typing.Literal:
        return ", ".join(f"`{choice}`" for choice in typing.get_args(field.kind))
    if field.name == "command":
        return "list of texts, or text"
    if origin is dict:
        return "texts by name" if typing.get_args(field.kind)[1] is str else "lists by name"
    if origin is tuple:
        return "list of numbers" if typing.get_args(field.kind)[0] is int else "list of texts"
    word = {
        str: "text",
        int: f"number of {field.unit}" if field.unit else "number",
        bool: "yes or no",
    }
    limits = [
        f"≥ {meta.ge}" if meta.ge is not None else "",
        f"≤ {meta.le}" if meta.le is not None else "",
    ]
    limits.append(f"≤ {meta.max_length} characters" if meta.max_length is not None else "")
    return ", ".join([word[field.kind], *filter(None, limits)])


def _default(field: Field) -> str:
    if field.name == "command":
        return "must be given"
    if field.name == "workdir":
        return "`/`; on the command line the folder you are in"
    if field.default is None or field.default in ("", (), {}):
        return "–"
    if isinstance(field.default, bool):
        return "yes" if field.default else "no"
    return f"`{field.default}`"


def _environment() -> dict[str, str]:
    """Every variable that is always set. Raises when one has no explanation here."""
    explained = {
        "HOME": "of the account",
        "USER": "of the account",
        "LOGNAME": "of the account",
        "SHELL": "of the account",
        "PATH": "of the runner's start, or the system's usual one",
        "LANG": "of the runner's start if that is UTF-8, else `C.UTF-8`",
        "PYTHONUNBUFFERED": "`1`: output can be followed live",
        "CUDA_DEVICE_ORDER": "`PCI_BUS_ID`",
        "CUDA_VISIBLE_DEVICES": "the cards it holds, for example `0,2`; empty for a task without GPUs",
        "NVIDIA_VISIBLE_DEVICES": "the same",
        "STOKER_GPU_IDS": "the same",
        "STOKER_TASK_ID": "the task's number",
        "STOKER_ATTEMPT": "the attempt and its part",
        "STOKER_NODE": "the node's name",
    }
    launch = Launch("a", 0, 1, 1, Incarnation("b", "s"), "1", "n", "/")
    account = Account("name", 1, 1, "/home", "/bin/sh")
    found = environment(launch, account, {}, is_own=True)
    if set(found) != set(explained):
        raise SystemExit(f"explain in tools/docs.py: {sorted(set(found) ^ set(explained))}")
    return explained
