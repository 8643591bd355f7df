"""Every way a supervisor can describe an end has one meaning."""

from __future__ import annotations

import pytest

from stoker.domain.outcome import OUTCOME_OF, end_from_exit, lost


@pytest.mark.parametrize(
    ("cause", "code", "signal", "reason", "outcome", "why"),
    [
        ("exit", 0, None, "", "succeeded", "exit_zero"),
        ("exit", 0, None, "gpu_memory", "succeeded", "exit_zero"),
        ("exit", 3, None, "", "failed", "exit_code"),
        ("exit", 1, None, "module_missing", "failed", "module_missing"),
        ("exit", None, 11, "", "failed", "killed_by_signal"),
        ("exit", None, 9, "memory_limit", "failed", "memory_limit"),
        ("exit", 1, None, "a_reason_of_tomorrow", "failed", "exit_code"),
        ("limit", None, 15, "", "timed_out", "time_limit"),
        ("limit", 0, None, "", "timed_out", "time_limit"),
        ("cancel", None, 15, "", "cancelled", "cancelled"),
        ("revoked", None, None, "", "cancelled", "cancelled"),
        ("refused", None, None, "command_not_found", "failed", "command_not_found"),
        ("refused", None, None, "", "failed", "start_failed"),
        ("refused", None, None, "supervisor_died", "failed", "start_failed"),
    ],
)
def test_an_exit_has_one_meaning(
    cause: str, code: int | None, signal: int | None, reason: str, outcome: str, why: str
) -> None:
    end = end_from_exit(cause=cause, code=code, signal=signal, reason=reason, detail="d")

    assert (end.outcome, end.reason, end.exit_code, end.signal) == (outcome, why, code, signal)


@pytest.mark.parametrize("evidence", ["supervisor_died", "rebooted", "spool_gone", "nonsense"])
def test_lost_is_never_a_guess(evidence: str) -> None:
    end = lost(evidence, stopping=False)

    assert end.outcome == "lost"
    assert OUTCOME_OF[end.reason] == "lost"
    assert end.exit_code is None


def test_lost_while_stopping_is_the_stop_having_worked() -> None:
    assert lost("rebooted", stopping=True).outcome == "cancelled"
