"""Ids on the command line: `17`, or `17_3` for an element; `#17` as it is written in chats."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click
from typing_extensions import override

from stoker.domain.key import parse_key

from .say import words

F = TypeVar("F", bound=Callable[..., Any])


class TaskId(click.ParamType[str]):
    name = "ID"

    @override
    def convert(self, value: Any, param: click.Parameter | None, ctx: Any) -> str:
        key = parse_key(str(value).removeprefix("#"))
        if key is None:
            raise click.BadParameter(words("usage.not_id", value=str(value)), param=param)
        return str(key)


def id_argument(function: F) -> F:
    return click.argument("id", type=TaskId(), metavar="ID")(function)


def ids_argument(function: F) -> F:
    return click.argument("ids", type=TaskId(), nargs=-1, required=True, metavar="ID...")(function)
