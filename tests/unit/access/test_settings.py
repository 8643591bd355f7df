"""Own settings: usual fields of tasks are checked like tasks, and the refusal names them."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.access.settings import check_defaults, check_email
from stoker.domain.errors import InvalidSpec


@pytest.mark.parametrize(
    ("defaults", "code", "field"),
    [
        ({"command": ["rm"]}, "unknown_field", "defaults.command"),
        ({"gpu": 1}, "unknown_field", "defaults.gpu"),
        ({"gpus": "1"}, "wrong_type", "defaults.gpus"),
        ({"gpus": -1}, "too_small", "defaults.gpus"),
        ({"workdir": "here"}, "not_absolute", "defaults.workdir"),
        ({"name": "a\0"}, "nul", "defaults.name"),
    ],
)
def test_what_could_not_be_submitted_is_refused(
    defaults: dict[str, Any], code: str, field: str
) -> None:
    with pytest.raises(InvalidSpec) as refused:
        check_defaults(defaults)
    assert (refused.value.code, refused.value.field) == (code, field)


def test_good_ones_are_taken() -> None:
    check_defaults({})
    check_defaults({"gpus": 1, "env": {"A": "b"}, "time_limit_s": 60})
    for email in ("", "ana@lab.example", "a.b+c@x"):
        check_email(email)


@pytest.mark.parametrize("email", ["ana", "@x", "a@", "a b@x", "a@x\n", "A <a@x>", "a@x,b@y"])
def test_what_is_no_mail_address(email: str) -> None:
    with pytest.raises(InvalidSpec):
        check_email(email)
