"""What a node remembers for a server whose records are older than its spool."""

from __future__ import annotations

from pathlib import Path

from stoker.runner.protocol import GpuHold, Past, Recall, Recalled
from tests.helpers.runner_client import Client, RunnerProcess


def recalled(client: Client, above: int = 0) -> Recalled:
    client.send(Recall(client.epoch, above))
    return client.expect(Recalled)


def by_attempt(answer: Recalled) -> dict[str, Past]:
    return {past.seen.attempt: past for past in answer.parts}


def test_running_ended_forgotten_and_revoked_ones_are_told_in_order(client: Client) -> None:
    forgotten = client.launch(shell="exit 3", whose="1@then")
    client.ended(forgotten)
    client.forget(forgotten)
    ended = client.launch(shell="exit 4", whose="2@then", gpus=[GpuHold(0, "card-0")])
    client.ended(ended)
    runs = client.launch(shell="sleep 600", whose="3_1@then")
    client.state(runs, "running")
    revoked = client.a_launch(shell="true", whose="4@then")
    client.stop(revoked)
    client.ended(revoked)

    answer = recalled(client)

    assert [past.seen.attempt for past in answer.parts] == [
        launch.attempt for launch in (forgotten, ended, runs, revoked)
    ]
    told = by_attempt(answer)
    assert [told[one.attempt].whose for one in (forgotten, ended, runs)] == [
        "1@then",
        "2@then",
        "3_1@then",
    ]
    assert [told[one.attempt].seen.state for one in (forgotten, ended, runs, revoked)] == [
        "ended",
        "ended",
        "running",
        "ended",
    ]
    first, last = told[forgotten.attempt], told[revoked.attempt]
    assert first.seen.exit is not None
    assert (first.seen.exit.code, first.boot_id) == (3, client.incarnation.boot_id)
    assert last.seen.exit is not None
    assert last.seen.exit.cause == "revoked"
    assert told[ended.attempt].seen.gpus == ["card-0"]
    assert answer.unexplained == []


def test_only_what_is_above_the_number_is_told(client: Client) -> None:
    old = client.launch(shell="true")
    client.ended(old)
    client.forget(old)
    new = client.launch(shell="true")
    client.ended(new)

    assert list(by_attempt(recalled(client, old.number))) == [new.attempt]
    assert recalled(client, new.number).parts == []


def test_a_number_that_nobody_remembers_is_said_to_be_so(
    client: Client, runner: RunnerProcess
) -> None:
    """Its line is too old, or could not be written."""
    launch = client.launch(shell="true")
    client.ended(launch)
    client.forget(launch)
    client.listing()
    runner.kill()
    Path(runner.spool / "ended.jsonl").write_bytes(b"")
    runner.start()
    client = runner.client(epoch=2)

    answer = recalled(client)

    assert (answer.parts, answer.unexplained) == ([], [launch.number])
