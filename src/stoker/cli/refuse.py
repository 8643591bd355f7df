"""What went wrong, as one line and an exit code. Imported only when something did."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

import click

from stoker.client import Refused, ServerUnreachable
from stoker.config import BadSetting
from stoker.domain.errors import AppError
from stoker.text import hint, message

from .run import REFUSED, UNREACHABLE
from .say import language, words


def explain(error: Exception) -> tuple[int, str, str] | None:
    """(exit code, line, field), or None for an error that nobody foresaw."""
    explained: tuple[int, str, str] | None = None
    match error:
        case Refused():
            explained = REFUSED, _joined(error.message, error.hint), error.field or ""
        case ServerUnreachable():
            code = REFUSED if error.why.startswith("bad_") else UNREACHABLE
            explained = code, error.sentence(language()), error.about
        case AppError():
            explained = REFUSED, _said(error.code, error.values), error.field
        case BadSetting():
            explained = REFUSED, _said(error.problem, {"value": error.value}), error.key
        case click.UsageError():
            explained = REFUSED, *_usage(error)
        case OSError():
            why = error.strerror or str(error)
            explained = REFUSED, words("os_error", why=why), str(error.filename or "")
        case _:
            pass
    return explained


def _usage(error: click.UsageError) -> tuple[str, str]:
    """Click's refusals in our words, and what they are about."""
    match error:
        case click.NoSuchOption():
            near = _nearest(error)
            key = "usage.no_option_near" if near else "usage.no_option"
            return words(key, name=error.option_name, near=near), ""
        case click.MissingParameter():
            name = (error.param.name if error.param else None) or ""
            return words("usage.missing", name=name), name
        case click.BadOptionUsage():
            return words("usage.needs_value"), error.option_name or ""
        case click.BadParameter():
            return error.message, (error.param.name if error.param else None) or ""
        case _:
            return error.format_message(), ""


def _nearest(error: click.NoSuchOption) -> str:
    """The option that was probably meant: one that goes on like it, or else looks like it."""
    known = [
        name
        for parameter in (error.ctx.command.params if error.ctx else [])
        if isinstance(parameter, click.Option) and not parameter.hidden
        for name in (*parameter.opts, *parameter.secondary_opts)
    ]
    longer = [name for name in known if name.startswith(error.option_name)]
    if longer:
        return min(longer, key=len)
    return next(iter(get_close_matches(error.option_name, known, 1)), "")


def _said(code: str, values: Mapping[str, object]) -> str:
    return _joined(message(code, values, language()), hint(code, values, language()))


def _joined(said: str, advice: str | None) -> str:
    return f"{said} {advice}" if advice else said
