"""Everything that can go wrong in a way we know, as a code and values.

    AppError
    ├── RequestError        the caller's mistake; the API answers 4xx
    │   ├── InvalidSpec     a field is wrong (names it)
    │   ├── NeverFits       no node could ever run it
    │   ├── UnknownTask, UnknownNode, UnknownLog, UnknownPerson, UnknownChannel, UnknownSetting,
    │   │   UnknownEntry
    │   ├── Conflict        it is not in a state for that
    │   │   └── StaleVersion    it was changed since it was read
    │   └── NotAllowed      who are you, or not yours
    ├── EngineError
    │   ├── EngineUnreachable   try again later; says nothing about the attempt
    │   └── EngineRefused       will not get better by itself
    ├── StoreError
    │   ├── StaleWrite      somebody moved the task first; drop your result
    │   └── StoreDown       the disk or the database refuses; nothing was recorded
    │       └── StoreOutdated   and never will be again: the records have gone on without us
    └── InvalidTransition   a bug here; carries the task's history

`text/` renders `code` with `values` as one sentence, in English and Chinese. No sentence is here.
"""

from __future__ import annotations


class AppError(Exception):
    """A code, the values its sentence needs, and the field it is about."""

    code = "internal"

    def __init__(self, code: str = "", *, field: str = "", **values: object) -> None:
        self.code = code or type(self).code
        self.field = field
        self.values = values
        super().__init__(self.code, field, values)


class RequestError(AppError):
    code = "bad_request"


class InvalidSpec(RequestError):
    code = "invalid"


class NeverFits(RequestError):
    code = "never_fits"


class UnknownTask(RequestError):
    code = "unknown_task"


class UnknownNode(RequestError):
    code = "unknown_node"


class UnknownLog(RequestError):
    code = "unknown_log"


class UnknownPerson(RequestError):
    code = "unknown_person"


class UnknownChannel(RequestError):
    code = "unknown_channel"


class UnknownSetting(RequestError):
    code = "no_such_setting"


class UnknownEntry(RequestError):
    """A queue or a team that is not there."""

    code = "not_found"


class Conflict(RequestError):
    code = "conflict"


class StaleVersion(Conflict):
    code = "stale_edit"


class NotAllowed(RequestError):
    code = "not_allowed"


class EngineError(AppError):
    code = "engine"


class EngineUnreachable(EngineError):
    code = "node_unreachable"


class EngineRefused(EngineError):
    code = "node_refused"


class StoreError(AppError):
    code = "store"


class StaleWrite(StoreError):
    code = "stale"


class StoreDown(StoreError):
    code = "store_down"


class StoreOutdated(StoreDown):
    code = "store_outdated"


class InvalidTransition(AppError):
    code = "invalid_transition"
