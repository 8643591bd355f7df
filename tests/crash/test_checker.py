"""A clean history passes; each kind of violation, planted on purpose, is found.

A checker that cannot fail would make the whole suite worthless, so every rule is broken here at
least once, and a test says that no rule was left out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from . import checker
from .checker import check
from .history import Answer, AttemptRow, EndRow, EventRow, Exit, History, Line, TaskRow

OK = EndRow("succeeded", "exit_zero", exit_code=0)
FAILED = EndRow("failed", "exit_code", exit_code=3)
CANCELLED = EndRow("cancelled", "cancelled")
LOST = EndRow("lost", "supervisor_died")
SECOND = 1_000_000_000
WALL = 1_700_000_000 * SECOND
"""What the wall clock showed at boot."""


class Story:
    """Tells a history task by task, in the words of what really happened."""

    def __init__(self) -> None:
        self.history = History()
        self._seq = 0

    def task(
        self, id: str, state: str = "FINISHED", end: EndRow | None = OK, *, again: bool = False
    ) -> Story:
        attempt = f"{id}a"
        self.history.tasks.append(TaskRow(id, f"name {id}", state, attempt, end, again))
        self.history.answers.append(Answer("submit", id, 0, f"name {id}"))
        return self.events(id, "Submitted")

    def events(self, task: str, *kinds: str) -> Story:
        """`Ended` is the end of the task's last attempt, if there was one before it."""
        for kind in kinds:
            self._seq += 1
            attempts = [one.id for one in self.history.attempts if one.task == task]
            attempt = attempts[-1] if attempts and kind == "Ended" else None
            self.history.events.append(EventRow(self._seq, task, kind, attempt))
        return self

    def attempt(
        self,
        task: str,
        name: str = "a",
        *,
        at: tuple[int, int],
        end: EndRow | None = OK,
        gpus: tuple[int, ...] = (0,),
        is_over: bool = True,
    ) -> Story:
        """Placed at second `at[0]`, ended at second `at[1]`."""
        row = AttemptRow(
            id=task + name,
            task=task,
            ordinal=ord(name) - ord("a") + 1,
            gpus=gpus,
            boot="boot",
            spool="spool",
            placed_ns=WALL + at[0] * SECOND,
            ended_ns=WALL + at[1] * SECOND if is_over else None,
            end=end,
        )
        self.history.attempts.append(row)
        return self.events(task, "Placed", "Started")

    def lived(
        self,
        task: str,
        name: str = "a",
        *,
        at: tuple[float, float],
        code: int | None = 0,
        gpus: tuple[int, ...] = (0,),
        who: str = "main",
    ) -> Story:
        """Started and ticked its last at these seconds; `code` = its last words, if it had any."""
        moments = [(at[0], "start"), ((at[0] + at[1]) / 2, "tick"), (at[1], "tick")]
        if code is not None:
            moments.append((at[1], "end"))
        for when, what in moments:
            ns = int(when * SECOND)
            line = Line(task, task + name, 7, "boot", ns, WALL + ns, what, who, gpus)  # type: ignore[arg-type]
            self.history.lines.append(replace(line, code=code) if what == "end" else line)
        return self


def clean() -> Story:
    """A success, a failure, a cancel, a loss that was rerun, a card handed on."""
    story = Story()
    story.task("1").attempt("1", at=(1, 4)).lived("1", at=(2, 3)).events("1", "Ended")
    story.task("2", end=FAILED)
    story.attempt("2", at=(4, 7), end=FAILED).lived("2", at=(5, 6), code=3).events("2", "Ended")
    story.task("3", end=CANCELLED).attempt("3", at=(1, 9), end=CANCELLED, gpus=(1,))
    story.lived("3", at=(2, 8), code=None, gpus=(1,)).events("3", "StopRequested", "Ended")
    story.history.answers.append(Answer("cancel", "3", 7 * SECOND))
    story.task("4", again=True)
    story.attempt("4", "a", at=(7, 10), end=LOST).lived("4", "a", at=(8, 9), code=None)
    story.events("4", "Requeued").attempt("4", "b", at=(10, 13)).lived("4", "b", at=(11, 12))
    story.events("4", "Ended")
    story.history.killed_supervisors.add("4a")
    story.history.tasks[-1] = replace(story.history.tasks[-1], attempt="4b")
    story.history.exits["2a"] = Exit("exit", 3)
    story.history.answers.append(Answer("finished", "1", 5 * SECOND))
    return story


def test_clean_history_passes() -> None:
    assert check(clean().history) == []


def _alter_task(story: Story, id: str, **changes: object) -> None:
    tasks = story.history.tasks
    at = next(number for number, task in enumerate(tasks) if task.id == id)
    tasks[at] = replace(tasks[at], **changes)  # type: ignore[arg-type]


def _alter_attempt(story: Story, id: str, **changes: object) -> None:
    attempts = story.history.attempts
    at = next(number for number, attempt in enumerate(attempts) if attempt.id == id)
    attempts[at] = replace(attempts[at], **changes)  # type: ignore[arg-type]


def submit_forgotten(story: Story) -> None:
    story.history.answers.append(Answer("submit", "99", 0, "name 99"))


def submit_mixed_up(story: Story) -> None:
    _alter_task(story, "1", name="another")


def task_stuck(story: Story) -> None:
    _alter_task(story, "1", state="RUNNING", end=None)


def ended_twice(story: Story) -> None:
    story.events("1", "Ended")


def attempt_without_end(story: Story) -> None:
    _alter_attempt(story, "1a", ended_ns=None, end=None)


def finished_without_saying_how(story: Story) -> None:
    _alter_task(story, "1", end=None)


def finished_untried(story: Story) -> None:
    story.task("5").events("5", "Ended")


def launched_before_commit(story: Story) -> None:
    story.lived("1", "z", at=(20, 21))


def launched_before_intent(story: Story) -> None:
    _alter_attempt(story, "1a", placed_ns=WALL + int(2.5 * SECOND))


def ran_as_another_task(story: Story) -> None:
    _alter_attempt(story, "1a", task="2")


def ran_on_other_gpus(story: Story) -> None:
    _alter_attempt(story, "1a", gpus=(2,))


def attempt_ran_twice(story: Story) -> None:
    story.lived("1", at=(2, 3))


def two_live_copies(story: Story) -> None:
    story.lived("4", "a", at=(10, 11.5), code=None)


def copy_inside_a_longer_one(story: Story) -> None:
    """A grandchild of the old attempt that outlives the whole new one."""
    story.lived("4", "a", at=(8, 12.9), code=None, who="child")


def gpu_held_twice(story: Story) -> None:
    story.task("6").attempt("6", at=(1, 4)).lived("6", at=(2.5, 2.6)).events("6", "Ended")


def wrong_code(story: Story) -> None:
    _alter_attempt(story, "1a", end=FAILED)


def wrong_code_on_the_node(story: Story) -> None:
    story.history.exits["1a"] = Exit("exit", 4)


def wrong_cause(story: Story) -> None:
    story.history.exits["1a"] = Exit("limit", 0)


def success_guessed(story: Story) -> None:
    story.history.lines = [
        line for line in story.history.lines if (line.attempt, line.what) != ("1a", "end")
    ]


def success_of_nothing(story: Story) -> None:
    story.history.lines = [line for line in story.history.lines if line.attempt != "1a"]


def killed_before_it_ran(story: Story) -> None:
    killed = EndRow("failed", "killed_by_signal", signal=9)
    _alter_attempt(story, "2a", end=killed)
    _alter_task(story, "2", end=killed)
    story.history.lines = [line for line in story.history.lines if line.attempt != "2a"]
    story.history.exits.clear()


def refused_but_ran(story: Story) -> None:
    _alter_attempt(story, "2a", end=EndRow("failed", "command_not_found"))
    _alter_task(story, "2", end=EndRow("failed", "command_not_found"))
    story.history.lines = [
        line for line in story.history.lines if (line.attempt, line.what) != ("2a", "end")
    ]
    story.history.exits.clear()


def said_never_to_have_run(story: Story) -> None:
    _alter_attempt(story, "4a", end=None)


def task_and_attempt_disagree(story: Story) -> None:
    _alter_task(story, "1", end=FAILED)


def failed_while_it_waited(story: Story) -> None:
    story.history.events = [
        replace(event, attempt=None) if event.task == "2" else event
        for event in story.history.events
    ]


def lost_without_a_death(story: Story) -> None:
    story.history.killed_supervisors.clear()


def lost_with_an_exit_line(story: Story) -> None:
    story.history.exits["4a"] = Exit("exit", 0)


def lost_with_a_spool_that_is_there(story: Story) -> None:
    _alter_attempt(story, "4a", end=EndRow("lost", "spool_gone"))


def lost_without_a_reboot(story: Story) -> None:
    _alter_attempt(story, "4a", end=EndRow("lost", "rebooted"))


def rerun_unasked(story: Story) -> None:
    _alter_task(story, "4", requeue_on_loss=False)


def rerun_after_an_end(story: Story) -> None:
    _alter_attempt(story, "4a", end=EndRow("failed", "killed_by_signal", signal=9))
    story.history.killed_supervisors.clear()


def ticked_after_its_end(story: Story) -> None:
    story.lived("2", at=(7.5, 7.6), code=None, who="child")


def ticked_after_it_was_shown_finished(story: Story) -> None:
    story.history.is_server_clock_true = False
    story.history.answers.append(Answer("finished", "2", int(5.5 * SECOND)))


def cancel_forgotten(story: Story) -> None:
    story.history.answers.append(Answer("cancel", "2", 5 * SECOND))


def placed_after_cancel(story: Story) -> None:
    story.history.events = [e for e in story.history.events if e.task != "3"]
    story.events("3", "Submitted", "Placed", "StopRequested", "Requeued", "Placed", "Ended")


def cancelled_became_lost(story: Story) -> None:
    story.history.killed_supervisors.add("3a")
    _alter_task(story, "3", end=LOST)
    _alter_attempt(story, "3a", end=LOST)


def began_after_cancel_while_waiting(story: Story) -> None:
    story.history.events = [e for e in story.history.events if e.task != "3"]
    story.events("3", "Submitted", "Ended")
    story.history.answers.append(Answer("cancel", "3", 1 * SECOND))


VIOLATIONS: dict[Callable[[Story], None], str] = {
    submit_forgotten: "task 99 was acknowledged and is not in the records",
    submit_mixed_up: "was acknowledged as 'name 1' and is 'another'",
    task_stuck: "task 1 is still RUNNING",
    ended_twice: "its events are Submitted Placed Started Ended Ended",
    attempt_without_end: "attempt 1a has no end",
    finished_without_saying_how: "task 1 is finished without saying how",
    finished_untried: "task 5 is succeeded without ever having been tried",
    launched_before_commit: "attempt 1z of task 1 ran and is not in the records",
    launched_before_intent: "attempt 1a began before there was an intent",
    ran_as_another_task: "attempt 1a belongs to task 2 and ran as 1",
    ran_on_other_gpus: "was given GPUs (2,) and ran on (0,)",
    attempt_ran_twice: "attempt 1a of task 1 ran 2 times",
    two_live_copies: "task 4 had two live copies: attempts 4a and 4b",
    copy_inside_a_longer_one: "task 4 had two live copies: attempts 4a and 4b",
    gpu_held_twice: "GPU 0 was held by tasks 1 and 6 at the same time",
    wrong_code: "ended with 0 and is recorded as failed (code 3)",
    wrong_code_on_the_node: "its node recorded Exit(cause='exit', code=4",
    wrong_cause: "its node recorded Exit(cause='limit', code=0",
    success_guessed: "ended by itself with succeeded (code 0), and it did not end so",
    success_of_nothing: "ended with succeeded (code 0), and it never ran",
    killed_before_it_ran: "ended with failed (signal 9), and it never ran",
    refused_but_ran: "is recorded as command_not_found before it began, and it ran",
    said_never_to_have_run: "attempt 4a of task 4 is recorded as never having run, and it ran",
    task_and_attempt_disagree: "and its attempt says",
    failed_while_it_waited: "task 2 became failed while it waited",
    lost_without_a_death: "1 attempts are lost (supervisor_died) with 0 such deaths: 4a",
    lost_with_an_exit_line: "attempt 4a is lost, but its node recorded",
    lost_with_a_spool_that_is_there: "and nobody deleted its spool",
    lost_without_a_reboot: "is lost (rebooted), and its node did not",
    rerun_unasked: "task 4 was lost and ran again, and had not asked for it",
    rerun_after_an_end: "task 4 ran again after attempt 4a was failed",
    ticked_after_its_end: "attempt 2a still lived after its end was recorded (start)",
    ticked_after_it_was_shown_finished: "task 2 still lived after it was shown as finished",
    cancel_forgotten: "the cancel of task 2 was acknowledged and is not in the records",
    placed_after_cancel: "task 3 was placed again after it was cancelled",
    cancelled_became_lost: "task 3 was cancelled and is recorded as lost",
    began_after_cancel_while_waiting: "task 3 began after it was cancelled while it waited",
}


@pytest.mark.parametrize("plant", VIOLATIONS, ids=lambda plant: plant.__name__)
def test_planted_violation_is_found(plant: Callable[[Story], None]) -> None:
    story = clean()
    plant(story)
    found = check(story.history)
    assert any(VIOLATIONS[plant] in violation for violation in found), found


def test_every_rule_is_broken_by_some_planted_violation() -> None:
    broken = set()
    for plant in VIOLATIONS:
        story = clean()
        plant(story)
        case = checker._Case(story.history)
        broken |= {rule.__name__ for rule in checker.RULES if list(rule(case))}
    assert broken == {rule.__name__ for rule in checker.RULES}


def test_stop_between_last_words_and_exit_is_no_violation() -> None:
    """The witness had said its code, and was stopped before it could leave with it."""
    story = clean()
    last = Line("3", "3a", 7, "boot", 8 * SECOND, WALL + 8 * SECOND, "end", "main", (1,), code=0)
    story.history.lines.append(last)
    assert check(story.history) == []


def test_stop_before_the_first_word_is_no_violation() -> None:
    story = clean()
    stopped = replace(CANCELLED, signal=15)
    _alter_attempt(story, "3a", end=stopped)
    _alter_task(story, "3", end=stopped)
    story.history.lines = [line for line in story.history.lines if line.attempt != "3a"]
    assert check(story.history) == []


def test_cancel_of_a_task_that_waits_after_a_loss_is_no_violation() -> None:
    story = Story()
    story.task("1", end=CANCELLED, again=True)
    story.attempt("1", at=(1, 4), end=LOST).lived("1", at=(2, 3), code=None)
    story.history.killed_supervisors.add("1a")
    story.events("1", "Requeued", "Ended")
    story.history.events[-1] = replace(story.history.events[-1], attempt=None)
    story.history.answers.append(Answer("cancel", "1", 5 * SECOND))
    assert check(story.history) == []
