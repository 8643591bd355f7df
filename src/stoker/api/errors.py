"""From an error to its answer: one shape, one table of statuses, in the reader's language.

Nothing but the code, its sentence and its hint leaves the server: no traceback, no text of an
exception that we do not know. Such an exception is logged by type and place only, because its
words may hold what a person typed (commands, environments).
"""

from __future__ import annotations

import logging
import traceback
from functools import lru_cache

from litestar.exceptions import HTTPException, MethodNotAllowedException, NotFoundException
from litestar.types import Scope

from stoker import text
from stoker.domain.errors import (
    AppError,
    Conflict,
    EngineUnreachable,
    InvalidSpec,
    NeverFits,
    NotAllowed,
    RequestError,
    StaleWrite,
    StoreDown,
    UnknownChannel,
    UnknownEntry,
    UnknownLog,
    UnknownNode,
    UnknownPerson,
    UnknownSetting,
    UnknownTask,
)
from stoker.wire import Problem

from .answer import Answer, json_answer

log = logging.getLogger("stoker.api")

STATUS_OF: tuple[tuple[type[AppError], int], ...] = (
    (InvalidSpec, 422),
    (NeverFits, 422),
    (UnknownTask, 404),
    (UnknownNode, 404),
    (UnknownLog, 404),
    (UnknownPerson, 404),
    (UnknownChannel, 404),
    (UnknownSetting, 404),
    (UnknownEntry, 404),
    (Conflict, 409),
    (StaleWrite, 409),
    (NotAllowed, 403),
    (StoreDown, 503),
    (EngineUnreachable, 503),
)
STATUS_OF_CODE = {
    "not_json": 400,
    "json_ends_early": 400,
    "not_utf8": 400,
    "no_token": 401,
    "bad_token": 401,
    "token_expired": 401,
    "session_expired": 401,
    "not_found": 404,
    "unknown_token": 404,
    "method_not_allowed": 405,
    "body_too_large": 413,
    "task_too_large": 413,
    "stale_edit": 412,
    "stale_person": 412,
    "stale_entry": 412,
    "not_json_type": 415,
    "unknown_host": 421,
    "if_match_missing": 428,
    "too_many_logins": 429,
    "too_many_streams": 429,
    "too_many_submits": 429,
    "logins_busy": 503,
    "login_unreachable": 503,
    "too_many_notices": 429,
    "queue_full": 429,
    "too_many_waiting": 429,
}
"""Codes that say more than their class."""
RETRY_AFTER_S = 5
"""Unless the error knows better: its value `retry_after_s`."""
LANGUAGE = "stoker.language"
"""Where the wall leaves in the scope what the caller has chosen."""


class Refused(RequestError):
    """HTTP itself is at fault: path, method, host, type or size. Carries headers of its answer."""

    def __init__(
        self, code: str, *, headers: tuple[tuple[bytes, bytes], ...] = (), **values: object
    ) -> None:
        super().__init__(code)
        self.values, self.headers = values, headers


def status_of(error: AppError) -> int:
    """The status this error is answered with; 500 for what nobody foresaw."""
    if error.code in STATUS_OF_CODE:
        return STATUS_OF_CODE[error.code]
    for kind, status in STATUS_OF:
        if isinstance(error, kind):
            return status
    return 400 if isinstance(error, RequestError) else 500


def problem(error: AppError, language: str) -> Problem:
    """What the person reads."""
    code = "internal" if status_of(error) == 500 else error.code
    return Problem(
        code=code,
        message=text.message(code, error.values, language),
        field=error.field or None,
        hint=text.hint(code, error.values, language),
    )


def refuse(error: Exception, scope: Scope) -> Answer:
    """The answer to a request that failed with `error`."""
    known = _known(error)
    status = status_of(known)
    if status == 500:
        log_unforeseen(error, scope)
    headers: list[tuple[bytes, bytes]] = list(getattr(known, "headers", ()))
    if status == 401:
        headers.append((b"www-authenticate", b'Bearer realm="stoker"'))
    if status in (429, 503):
        seconds = known.values.get("retry_after_s", RETRY_AFTER_S)
        headers.append((b"retry-after", str(seconds).encode("ascii")))
    return json_answer(problem(known, language_of(scope)), status, headers)


def language_of(scope: Scope) -> str:
    """The language of the answer: by Accept-Language, else the one that the caller has chosen."""
    for name, value in scope["headers"]:
        if name == b"accept-language":
            return _language(value)
    chosen: str = scope.get(LANGUAGE) or _language(b"")  # type: ignore[assignment]
    return chosen


def log_unforeseen(error: BaseException, scope: Scope) -> None:
    """Type, place and request of what should not happen; never its words."""
    place = "".join(traceback.format_tb(error.__traceback__))
    log.error(
        "event=request_failed method=%s path=%r error=%s code=%s\n%s",
        scope.get("method", ""),
        scope["path"],
        type(error).__qualname__,
        getattr(error, "code", ""),
        place,
    )


def _known(error: Exception) -> AppError:
    match error:
        case AppError():
            return error
        case NotFoundException():
            return Refused("not_found")
        case MethodNotAllowedException():
            allowed = [
                method
                for method in (error.headers or {}).get("allow", "").split(", ")
                if method != "OPTIONS"
            ]
            names = ", ".join(sorted(allowed))
            return Refused(
                "method_not_allowed", headers=((b"allow", names.encode("ascii")),), allowed=names
            )
        case HTTPException() if error.status_code < 500:
            return Refused("bad_request")
        case _:
            return AppError("internal")


@lru_cache(256)
def _language(header: bytes) -> str:
    return text.pick_language(header.decode("latin-1") or None)
