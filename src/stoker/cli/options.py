"""The options of `submit`, from the one declaration: every field of a task is an option here.

`gpu_memory_mib` is `--gpu-memory 10G`, `time_limit_s` is `--time-limit 2h30m`; the unit is in the
value, not in the name. Values are only parsed here; what is allowed is said by the server, in one
place. `command` has no option of its own making: `-c`, exact arguments or a script (submit.py).
`--start-after` also takes `2h` and `22:00`: only here is known which zone a person means.
"""

from __future__ import annotations

import re
import typing
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, NoReturn

import click
from typing_extensions import override

from stoker.domain.task import NOT_YET, Field, TaskSpec, fields

from .say import refuse, words

SCALES: dict[str, dict[str, int]] = {
    "s": {"": 1, "s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600, "d": 86400, "w": 604800},
    "MiB": {
        "": 1, "m": 1, "mb": 1, "mib": 1, "g": 1024, "gb": 1024, "gib": 1024,
        "t": 1024**2, "tb": 1024**2, "tib": 1024**2,
    },
}  # fmt: skip
"""Units that may be typed. A bare number is in the field's own unit."""
EXAMPLES = {"s": "90s, 15m, 2h30m, 3d, 24:00:00", "MiB": "512M, 8G, 1T"}

_WHOLE = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)
_AMOUNT = re.compile(r"(?:[0-9]{1,15}[A-Za-z]+)+|[0-9]{1,15}", re.ASCII)
_PART = re.compile(r"([0-9]+)([A-Za-z]*)", re.ASCII)
_TIME_OF_DAY = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9]))?", re.ASCII)
_CLOCK = re.compile(r"([0-9]{1,9}):([0-5][0-9]):([0-5][0-9])", re.ASCII)


def spec_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds an option for every field but `command`. Not given = None (or an empty tuple)."""
    for field in reversed(list(fields())):
        if field.name != "command":
            function = _option(field)(function)
    return function


def flag_of(name: str) -> str:
    """The option of a field."""
    return "--" + name.removesuffix("_s").removesuffix("_mib").replace("_", "-")


def typed_values(given: Mapping[str, Any]) -> dict[str, Any]:
    """What was typed, by field, as the declaration wants it."""
    values: dict[str, Any] = {}
    for field in fields():
        value = given.get(field.name)
        if value is None or value == ():
            continue
        origin = typing.get_origin(field.kind)
        if origin is dict:
            value = _by_name(field.name, value)
        elif origin is tuple and field.name != "command" and isinstance(value[0], tuple):
            value = tuple(item for group in value for item in group)
        values[field.name] = value
    return values


def _by_name(field: str, pairs: tuple[tuple[str, Any], ...]) -> dict[str, Any]:
    """Of a variable the last one counts; a swept name that comes twice is a mistake."""
    found = dict(pairs)
    if field == "sweep" and len(found) < len(pairs):
        names = [name for name, _ in pairs]
        refuse("sweep.twice", field, name=next(n for n in names if names.count(n) > 1))
    return found


def as_typed(spec: TaskSpec) -> list[list[str]]:
    """The options that would make this spec, `command` apart: one list per option."""
    options: list[list[str]] = []
    for field in fields():
        value = getattr(spec, field.name)
        if field.name != "command" and value != field.default:
            options.extend(words_of(field, value))
    return options


def check_utf8(values: Mapping[str, Any]) -> None:
    """JSON cannot carry other bytes: they are refused here, naming the field."""
    for field, text in _texts(values):
        try:
            text.encode()
        except UnicodeEncodeError:
            refuse("usage.not_utf8", field)


def _texts(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for field, value in values.items():
        if isinstance(value, str):
            yield field, value
        elif isinstance(value, tuple):
            for number, item in enumerate(value):
                if isinstance(item, str):
                    yield f"{field}[{number}]", item
        elif isinstance(value, dict):
            for key, item in value.items():
                yield field, key
                for text in (item,) if isinstance(item, str) else item:
                    yield f"{field}.{key}", text


def _option(field: Field) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    flag = flag_of(field.name)
    how: dict[str, Any] = {"type": click.STRING}
    origin = typing.get_origin(field.kind)
    if field.kind is bool:
        flag, how = f"{flag}/--no-{flag[2:]}", {}
    elif field.name == "start_after":
        how = {"type": Moment()}
    elif field.unit:
        how = {"type": Quantity(field.unit)}
    elif field.kind is int:
        how = {"type": Whole()}
    elif origin is tuple:
        numbers = typing.get_args(field.kind)[0] is int
        how = {"multiple": True, "type": Numbers() if numbers else click.STRING}
    elif origin is dict:
        lists = typing.get_origin(typing.get_args(field.kind)[1]) is tuple
        how = {"multiple": True, "type": Swept() if lists else Pair()}
    elif origin is typing.Literal:
        how = {"type": click.STRING, "metavar": "|".join(typing.get_args(field.kind))}
    names = [name for name in (field.short, flag) if name]
    return click.option(
        *names,
        field.name,
        default=None,
        help=f"field.{field.name}",
        hidden=field.name in NOT_YET,
        **how,
    )


class _Kind(click.ParamType[Any]):
    """A kind of value that says in our words what it wants."""

    def refuse(self, key: str, param: click.Parameter | None, **values: object) -> NoReturn:
        raise click.BadParameter(words(key, **values), param=param)


class Whole(_Kind):
    name = "N"

    @override
    def convert(self, value: Any, param: click.Parameter | None, ctx: Any) -> int:
        if isinstance(value, str) and not _WHOLE.fullmatch(value):
            self.refuse("usage.not_whole", param, value=value)
        return int(value)


class Numbers(_Kind):
    """`0,2,3`: several numbers in one value."""

    name = "N[,N...]"

    @override
    def convert(self, value: Any, param: click.Parameter | None, ctx: Any) -> tuple[int, ...]:
        parts = value.split(",") if isinstance(value, str) else value
        if not all(_WHOLE.fullmatch(str(part)) for part in parts):
            self.refuse("usage.not_numbers", param, value=value)
        return tuple(int(part) for part in parts)


class Quantity(_Kind):
    """`2h30m`, `8G`, or a bare number in the field's own unit."""

    def __init__(self, unit: str) -> None:
        self.unit, self.name = unit, {"s": "TIME", "MiB": "SIZE"}[unit]

    @override
    def convert(self, value: Any, param: click.Parameter | None, ctx: Any) -> int:
        if not isinstance(value, str):
            return int(value)
        if self.unit == "s" and (clock := _CLOCK.fullmatch(value)):
            return int(clock[1]) * 3600 + int(clock[2]) * 60 + int(clock[3])
        parts, scale = _PART.findall(value), SCALES[self.unit]
        if not _AMOUNT.fullmatch(value) or any(unit.lower() not in scale for _, unit in parts):
            self.refuse("usage.not_quantity", param, value=value, examples=EXAMPLES[self.unit])
        return sum(int(number) * scale[unit.lower()] for number, unit in parts)


class Moment(_Kind):
    """`2h` from now, `22:00` as the clock on the wall shows next, or ISO 8601; always with a zone
    then. Anything else goes to the server as it is, to be refused there."""

    name = "WHEN"

    @override
    def convert(self, value: Any, param: click.Parameter | None, ctx: Any) -> str:
        now = datetime.now().astimezone()
        day = _TIME_OF_DAY.fullmatch(value)
        if day is not None:
            at = now.replace(
                hour=int(day[1]), minute=int(day[2]), second=int(day[3] or 0), microsecond=0
            )
            at = at if at > now else at + timedelta(days=1)
            # at the wall clock's offset of that moment, which may be another one
            return at.replace(tzinfo=None).astimezone().isoformat()
        amount = value.removeprefix("+")
        if _AMOUNT.fullmatch(amount) and not amount.isdigit():
            later = now + timedelta(seconds=Quantity("s").convert(amount, param, ctx))
            return later.isoformat(timespec="seconds")
        try:
            at = datetime.fromisoformat(value)
        except ValueError:
            return str(value)
        return str(value) if at.tzinfo is not None else at.astimezone().isoformat()


class Pair(_Kind):
    name = "KEY=VALUE"

    @override
    def convert(self, value: Any, param: click.Parameter | None, ctx: Any) -> tuple[str, Any]:
        if not isinstance(value, str):
            return tuple(value)  # click converts a default again
        key, equals, rest = value.partition("=")
        if not key or not equals:
            self.refuse("usage.not_pair", param, value=value, form=self.name)
        return key, self.value(rest, param)

    def value(self, text: str, param: click.Parameter | None) -> Any:
        return text


class Swept(Pair):
    """`NAME=A,B,...`; see `sweeps`."""

    name = "NAME=A,B,..."

    @override
    def value(self, text: str, param: click.Parameter | None) -> tuple[str, ...]:
        from .sweeps import Unreadable, read_values

        try:
            return read_values(text)
        except Unreadable as error:
            self.refuse(error.key, param, **error.values)


def sweep_text(values: tuple[str, ...]) -> str:
    from .sweeps import write_values

    return write_values(values)


def words_of(field: Field, value: Any) -> Iterator[list[str]]:
    """The options that give this field this value."""
    flag = flag_of(field.name)
    if field.kind is bool:
        yield [flag if value else f"--no-{flag[2:]}"]
    elif isinstance(value, dict):
        for key, item in value.items():
            yield [flag, f"{key}={item if isinstance(item, str) else sweep_text(item)}"]
    elif isinstance(value, tuple):
        if typing.get_args(field.kind)[0] is int:
            yield [flag, ",".join(map(str, value))]
        else:
            yield from ([flag, item] for item in value)
    else:
        yield [flag, _amount(value, field.unit) if field.unit else str(value)]


def _amount(value: int, unit: str) -> str:
    """As a person would type it: `2h30m`, `8G`, never a fraction."""
    if unit == "MiB":
        return f"{value // 1024}G" if value and value % 1024 == 0 else f"{value}M"
    parts = []
    for name, size in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        count, value = divmod(value, size)
        parts += [f"{count}{name}"] if count else []
    return "".join(parts) or "0s"
