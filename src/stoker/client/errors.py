"""What can go wrong between a client and its server: no answer, or a refusal."""

from __future__ import annotations

from typing_extensions import override


class ServerUnreachable(Exception):
    """No answer. `why`: no_server | gone | no_connection | no_answer | not_stoker | bad_url |
    bad_token.

    `no_answer` means that the request was sent: it may or may not have been carried out;
    `not_stoker` that what answered is no server of this kind.
    """

    def __init__(self, why: str, where: str, detail: str = "") -> None:
        self.why, self.where, self.detail = why, where, detail
        super().__init__(why, where, detail)

    @override
    def __str__(self) -> str:
        return f"no answer from a Stoker server at {self.where} ({self.detail or self.why})"


class Refused(Exception):
    """The server said no: `code` is stable, `message` and `hint` are for people."""

    def __init__(
        self, code: str, message: str, field: str | None, hint: str | None, status: int
    ) -> None:
        self.code, self.message, self.field, self.hint = code, message, field, hint
        self.status = status
        super().__init__(code, message, field, hint, status)

    @override
    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message
