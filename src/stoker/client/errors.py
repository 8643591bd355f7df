"""What can go wrong between a client and its server: no answer, or a refusal."""

from __future__ import annotations

import os
import sys

from typing_extensions import override


class ServerUnreachable(Exception):
    """No answer. `why`: no_server | gone | no_connection | no_answer | not_stoker | bad_url |
    bad_token | bad_file | bad_mode | bad_ca | bad_certificate | cut; `where` that was, and what the system
    said (`detail`). As text: what to do about it.

    `bad_mode` means that others can read a token in `client.toml`; `bad_certificate` that nobody
    vouches for the server's certificate, and nothing was sent;
    `no_answer` that the request was sent: it may or may not have been carried out;
    `not_stoker` that what answered is no server of this kind; `cut` that a long answer ended before
    its end.
    """

    def __init__(self, why: str, where: str, detail: str = "") -> None:
        self.why, self.where, self.detail = why, where, detail
        super().__init__(why, where, detail)

    @override
    def __str__(self) -> str:
        from stoker.text import locale_language  # noqa: PLC0415 - only when something went wrong

        line = self.sentence(locale_language(os.environ))
        return f"{self.about}: {line}" if self.about else line

    @property
    def about(self) -> str:
        """The setting that is wrong; "" when it is none."""
        return {"bad_url": "STOKER_URL", "bad_token": "STOKER_TOKEN"}.get(self.why, "")

    def sentence(self, language: str) -> str:
        """What is wrong and what to do about it, in "en" or "zh"."""
        from stoker.text import phrase  # noqa: PLC0415

        key = f"unreachable.{self.why}"
        # only Linux can serve: elsewhere the server is another machine
        if sys.platform != "linux" and self.why in ("no_server", "gone", "no_connection"):
            key += ".elsewhere"
        return phrase(key, language, where=self.where, detail=self.detail)


class Refused(Exception):
    """The server said no: `code` is stable, `message` and `hint` are for people.

    `field` is what it is about (None: the whole request), `status` the HTTP status.
    """

    def __init__(
        self, code: str, message: str, field: str | None, hint: str | None, status: int
    ) -> None:
        self.code, self.message, self.field, self.hint = code, message, field, hint
        self.status = status
        super().__init__(code, message, field, hint, status)

    @override
    def __str__(self) -> str:
        said = f"{self.message} {self.hint}" if self.hint else self.message
        return f"{self.field}: {said}" if self.field else said
