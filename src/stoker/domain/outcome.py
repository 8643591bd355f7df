"""How a task ended and why: one table from reason to outcome, nothing inferred anywhere else.

A reason is a stable code that `text/` renders as a plain sentence. What the node found out (an
`Exit`) becomes an `End`; a missing process never becomes a success: without an exit line the end
is `lost`, with the evidence.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Outcome = Literal["succeeded", "failed", "cancelled", "timed_out", "lost"]
FAILED: tuple[Outcome, ...] = ("failed", "timed_out", "lost")
"""What another try may mend. Who cancelled a task did not want it."""

OUTCOME_OF: dict[str, Outcome] = {
    "exit_zero": "succeeded",
    # it ran and failed
    "exit_code": "failed",
    "killed_by_signal": "failed",
    "memory_limit": "failed",
    "host_memory": "failed",
    "gpu_memory": "failed",
    "disk_full": "failed",
    "disk_quota": "failed",
    "module_missing": "failed",
    "file_missing": "failed",
    "permission_denied": "failed",
    # it never began
    "command_not_found": "failed",
    "use_shell": "failed",
    "not_executable": "failed",
    "no_interpreter_line": "failed",
    "interpreter_missing": "failed",
    "windows_line_ends": "failed",
    "argument_list_too_long": "failed",
    "folder_missing": "failed",
    "folder_denied": "failed",
    "stdout_not_writable": "failed",
    "stderr_not_writable": "failed",
    "account_unknown": "failed",
    "account_not_allowed": "failed",
    "environment_missing": "failed",
    "environment_ambiguous": "failed",
    "not_an_environment": "failed",
    "environment_broken": "failed",
    "start_failed": "failed",
    # somebody or something stopped it
    "cancelled": "cancelled",
    "time_limit": "timed_out",
    # nobody can know
    "supervisor_died": "lost",
    "rebooted": "lost",
    "spool_gone": "lost",
    # an array, by its elements
    "all_succeeded": "succeeded",
    "elements_failed": "failed",
}
"""Every reason a task can end with."""


class End(Struct, frozen=True, kw_only=True):
    """The end of an attempt (or of a task that had none)."""

    outcome: Outcome
    reason: str
    detail: str = ""
    exit_code: int | None = None
    signal: int | None = None
    ran_s: float | None = None
    cpu_s: float | None = None
    max_rss_mib: int | None = None


def end_from_exit(
    *,
    cause: str,
    code: int | None,
    signal: int | None,
    reason: str,
    detail: str,
    ran_s: float | None = None,
    cpu_s: float | None = None,
    max_rss_mib: int | None = None,
) -> End:
    """What an exit line means. Total: any combination a runner may write gives an End."""
    if cause == "limit":
        why = "time_limit"
    elif cause in ("cancel", "requeue", "revoked", "lease", "aborted"):
        why = "cancelled"
    elif cause == "refused":
        why = reason if OUTCOME_OF.get(reason) == "failed" else "start_failed"
    elif code == 0:
        why = "exit_zero"
    elif OUTCOME_OF.get(reason) == "failed":
        why = reason
    else:
        why = "exit_code" if signal is None else "killed_by_signal"
    return End(
        outcome=OUTCOME_OF[why],
        reason=why,
        detail=detail,
        exit_code=code,
        signal=signal,
        ran_s=ran_s,
        cpu_s=cpu_s,
        max_rss_mib=max_rss_mib,
    )


def lost(evidence: str, *, stopping: bool) -> End:
    """No exit line will ever come. While it was being stopped that is the stop's success."""
    reason = evidence if OUTCOME_OF.get(evidence) == "lost" else "supervisor_died"
    if stopping:
        return End(outcome="cancelled", reason="cancelled", detail=reason)
    return End(outcome="lost", reason=reason)
