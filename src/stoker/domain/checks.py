"""What a type cannot say about a TaskSpec, and what msgspec's refusals mean.

`check` raises InvalidSpec with a code, the field and the values its sentence needs. All text that
is not refused here arrives at the process byte for byte.
"""

from __future__ import annotations

import operator
import re
import typing
from collections.abc import Iterator
from datetime import UTC, datetime

from .check_sweep import check_picked, check_sweep
from .dependency import parse_after
from .errors import InvalidSpec
from .indices import HIGHEST_INDEX, MOST_ELEMENTS
from .notice import check_wishes
from .sweep import array_of
from .task import NO_ENVIRONMENT, NOT_YET, TaskSpec, fields

MOST_ARGUMENT_BYTES = 131_071
"""Linux refuses a longer single argument (MAX_ARG_STRLEN, less the final NUL)."""
MOST_COMMAND_BYTES = 1_048_576
"""Of all arguments together, and of the environment: half of the usual ARG_MAX each."""
SURELY_SHORT = MOST_ARGUMENT_BYTES // 4
"""A character has at most four bytes: so many are short enough whatever they are."""

RESERVED_ENV = frozenset({"CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"})
"""They say which cards a task holds; so does everything that begins with STOKER_."""


def check(spec: TaskSpec) -> None:
    """Refuse what cannot be run as asked."""
    _check_not_yet(spec)
    _check_nul(spec)
    _check_command(spec)
    _check_paths(spec)
    _check_env(spec)
    if spec.environment not in NO_ENVIRONMENT:
        _check_environment(spec.environment)
    _check_gpus(spec)
    _check_cards(spec)
    _check_when(spec)
    _check_sweep(spec)
    _check_array(spec)
    if spec.notify:
        check_wishes(spec.notify)


_NOT_YET = sorted(NOT_YET)
_not_yet_values = operator.attrgetter(*_NOT_YET)
_NOTHING_ASKED = tuple({f.name: f.default for f in fields()}[name] for name in _NOT_YET)


def _check_not_yet(spec: TaskSpec) -> None:
    asked = _not_yet_values(spec)
    if asked != _NOTHING_ASKED:
        pairs = zip(_NOT_YET, asked, _NOTHING_ASKED, strict=True)
        raise InvalidSpec("not_yet", field=next(n for n, value, usual in pairs if value != usual))


_TEXT_FIELDS = [f.name for f in fields() if f.kind is str]
_text_values = operator.attrgetter(*_TEXT_FIELDS)


def _check_nul(spec: TaskSpec) -> None:
    """One look at everything is quick; only a NUL that is there is looked for field by field."""
    every = [*_text_values(spec), *spec.env, *spec.env.values(), *spec.gpu_model]
    every += (spec.command,) if isinstance(spec.command, str) else spec.command
    if "\0" in "".join(every):
        raise InvalidSpec("nul", field=next(field for field, text in _texts(spec) if "\0" in text))


def _texts(spec: TaskSpec) -> Iterator[tuple[str, str]]:
    """Every text in `spec`, with the path of its field."""
    for field in fields():
        value = getattr(spec, field.name)
        if isinstance(value, str):
            yield field.name, value
        elif isinstance(value, tuple):
            yield from (
                (f"{field.name}[{i}]", item)
                for i, item in enumerate(value)
                if isinstance(item, str)
            )
        elif isinstance(value, dict):
            for name, item in value.items():
                yield field.name, name
                if isinstance(item, str):
                    yield f"{field.name}.{name}", item


def _check_command(spec: TaskSpec) -> None:
    words = (spec.command,) if isinstance(spec.command, str) else spec.command
    if not words or not words[0].strip():
        raise InvalidSpec("empty_command", field="command")
    if sum(map(len, words)) > SURELY_SHORT:
        sizes = [len(word.encode()) for word in words]
        if max(sizes) > MOST_ARGUMENT_BYTES:
            raise InvalidSpec("argument_too_long", field="command", most=MOST_ARGUMENT_BYTES)
        if sum(sizes) > MOST_COMMAND_BYTES:
            raise InvalidSpec("argument_too_long", field="command", most=MOST_COMMAND_BYTES)
    if spec.gpu_id_args and not spec.gpus:
        raise InvalidSpec("needs_gpus", field="gpu_id_args")


def _check_paths(spec: TaskSpec) -> None:
    if not spec.workdir.startswith("/"):
        raise InvalidSpec("not_absolute", field="workdir", value=spec.workdir)
    for name, path in (
        ("workdir", spec.workdir), ("stdout", spec.stdout), ("stderr", spec.stderr),
    ):  # fmt: skip
        if path == "+":
            raise InvalidSpec("bad_path", field=name, value=path)
        if len(path) >= 1024 and len(path.encode()) >= 4096:
            raise InvalidSpec("path_too_long", field=name, most=4095)
    if spec.stdout == "merge":
        raise InvalidSpec("stdout_merge", field="stdout")


def _check_env(spec: TaskSpec) -> None:
    total = 0
    for name, value in spec.env.items():
        if not name or "=" in name:
            raise InvalidSpec("bad_env_name", field="env", name=name)
        if name in RESERVED_ENV or name.startswith("STOKER_"):
            raise InvalidSpec("reserved_env", field=f"env.{name}", name=name)
        size = len(name.encode()) + len(value.encode()) + 2
        if size > MOST_ARGUMENT_BYTES:
            raise InvalidSpec("argument_too_long", field=f"env.{name}", most=MOST_ARGUMENT_BYTES)
        total += size
    if total > MOST_COMMAND_BYTES:
        raise InvalidSpec("argument_too_long", field="env", most=MOST_COMMAND_BYTES)


_IMAGE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:|.*\.(?:sif|simg|sqsh)$", re.DOTALL)
"""`docker://...`, `docker-archive:...`, or a file with an image in it."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def _check_environment(value: str) -> None:
    """A name or an absolute path; whether it is there is the node's to say."""
    if _IMAGE.match(value):
        raise InvalidSpec("image_not_yet", field="environment")
    is_path = value.startswith("/")
    if len(value.encode()) > (4095 if is_path else 255):
        raise InvalidSpec("path_too_long", field="environment", most=4095 if is_path else 255)
    is_name = value not in (".", "..") and value.strip() == value and not set(value) & set("/\\:")
    if not (is_path or is_name) or _CONTROL.search(value):
        raise InvalidSpec("bad_environment", field="environment", value=value)


def _check_gpus(spec: TaskSpec) -> None:
    if not spec.gpu_ids:
        return
    if any(index < 0 for index in spec.gpu_ids):
        raise InvalidSpec("negative_gpu_id", field="gpu_ids", value=min(spec.gpu_ids))
    if len(set(spec.gpu_ids)) != len(spec.gpu_ids):
        raise InvalidSpec("duplicate_gpu_id", field="gpu_ids")
    if len(spec.gpu_ids) > spec.gpus:
        raise InvalidSpec(
            "more_ids_than_gpus", field="gpu_ids", ids=len(spec.gpu_ids), gpus=spec.gpus
        )


_CARDS = ("mode", "gpu_model", "gpu_memory_mib", "gpu_free_percent")
"""Fields that mean nothing without a card."""
_card_values = operator.attrgetter(*_CARDS)
_ANY_CARD = ("exclusive", (), None, None)


def _check_cards(spec: TaskSpec) -> None:
    """Which cards, and how they are held."""
    asked = _card_values(spec)
    if asked == _ANY_CARD:
        return
    if not spec.gpus:
        pairs = zip(_CARDS, asked, _ANY_CARD, strict=True)
        raise InvalidSpec(
            "needs_gpus", field=next(n for n, value, usual in pairs if value != usual)
        )
    if spec.mode == "shared" and spec.gpu_memory_mib is None:
        raise InvalidSpec("shared_needs_memory", field="gpu_memory_mib")
    if spec.mode == "exclusive":
        for name in ("gpu_memory_mib", "gpu_free_percent"):
            if getattr(spec, name) is not None:
                raise InvalidSpec("needs_shared", field=name)


def _check_when(spec: TaskSpec) -> None:
    for number, text in enumerate(spec.after):
        if parse_after(text) is None:
            raise InvalidSpec("bad_after", field=f"after[{number}]", value=text)
    if spec.start_after:
        try:
            at = datetime.fromisoformat(spec.start_after)
            zoned = at.utcoffset() is not None
            at.replace(tzinfo=at.tzinfo or UTC).astimezone(UTC)
        except (ValueError, OverflowError) as error:
            value = spec.start_after
            raise InvalidSpec("bad_start_after", field="start_after", value=value) from error
        if not zoned:
            raise InvalidSpec("time_zone_missing", field="start_after", value=spec.start_after)


def _check_sweep(spec: TaskSpec) -> None:
    if not spec.sweep:
        return
    longest = check_sweep(spec)
    for check_part in (_check_command, _check_paths, _check_env):
        check_part(longest)


def _check_array(spec: TaskSpec) -> None:
    if not spec.array:  # all combinations of a sweep are counted already
        return
    array = array_of(spec)
    if array is None:
        raise InvalidSpec("bad_array", field="array", value=spec.array, most=HIGHEST_INDEX)
    if len(array.indices) > MOST_ELEMENTS:
        size = len(array.indices)
        raise InvalidSpec("array_too_large", field="array", size=size, most=MOST_ELEMENTS)
    if spec.sweep:
        check_picked(spec, array)


_AT = re.compile(r" - at `(?:key in )?\$\.?(?P<path>.*?)(?:\[\.\.\.\])?`$")
_MEANINGS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"Expected `(?P<expected>[^`]+)`, got `(?P<got>[^`]+)`"), "wrong_type"),
    (re.compile(r"Expected `(?:str|bytes)` of length <= (?P<most>\d+)"), "too_long"),
    (re.compile(r"Expected `(?:array|object)` of length <= (?P<most>\d+)"), "too_many"),
    (re.compile(r"Expected `\w+` of length >= (?P<least>\d+)"), "too_short"),
    (re.compile(r"Expected `\w+` >= (?P<least>-?\d+)"), "too_small"),
    (re.compile(r"Expected `\w+` <= (?P<most>-?\d+)"), "too_large"),
    (re.compile(r"Integer value out of range|Number out of range"), "out_of_range"),
    (re.compile(r"Object missing required field `(?P<name>[^`]+)`"), "missing_field"),
    (re.compile(r"Object contains unknown field `(?P<name>[^`]*)`"), "unknown_field"),
    (re.compile(r"Invalid enum value '(?P<value>.*?)'(?= - at |$)"), "not_a_choice"),
    (re.compile(r"JSON is malformed: (?P<why>.*) \(byte (?P<offset>\d+)\)"), "not_json"),
    (re.compile(r"Input data was truncated"), "json_ends_early"),
)


def explain_validation(message: str) -> InvalidSpec:
    """msgspec's words as a code with values. Total: an unknown message gives `invalid`."""
    at = _AT.search(message)
    path = at["path"].replace("[...]", "") if at else ""
    for pattern, code in _MEANINGS:
        found = pattern.match(message)
        if found is None:
            continue
        values: dict[str, object] = dict(found.groupdict())
        if code in ("missing_field", "unknown_field"):
            path = f"{path}.{values['name']}".lstrip(".")
        elif code == "not_a_choice":
            values["choices"] = ", ".join(_choices(path.rpartition(".")[2]))
        return InvalidSpec(code, field=path, **values)
    return InvalidSpec("invalid", field=path, why=message.partition(" - at `")[0])


def _choices(name: str) -> tuple[str, ...]:
    kinds = {field.name: field.kind for field in fields()}
    return typing.get_args(kinds[name]) if name in kinds else ()
