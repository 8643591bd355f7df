"""Another time limit for what runs: whoever comes first wins, and nothing is lost on the way."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from stoker.runner import killpoint
from stoker.runner.protocol import Launch, Seen
from tests.helpers.kill_points import kill_at, pause_at, paused, reached
from tests.helpers.runner_client import Client, RunnerProcess, alive, wait_until
from tests.integration.runner.conftest import StartRunner


def limited(client: Client, limit_s: int | None) -> Launch:
    launch = client.launch("sleep", "100", time_limit_s=limit_s)
    client.state(launch, "running")
    return launch


def has_limit(client: Client, launch: Launch, limit_s: int) -> Seen:
    return client.about(launch, lambda seen: seen.limit_s == limit_s)


def reached_its_limit(client: Client, launch: Launch) -> str:
    """The limit, as the node says."""
    end = client.ended(launch).exit
    assert end is not None
    assert (end.cause, end.signal) == ("limit", signal.SIGTERM)
    return end.detail


def test_more_time_counts_and_the_node_says_so(any_runner: RunnerProcess) -> None:
    client = any_runner.client()
    launch, other = limited(client, 2), limited(client, 2)
    assert client.listing()[launch.attempt].limit_s == 2

    client.extend(launch, 60)

    pid = has_limit(client, launch, 60).pid
    assert reached_its_limit(client, other) == "2"
    assert alive(pid)
    client.extend(launch, 1, serial=2)
    assert reached_its_limit(client, launch) == "1"


def test_a_limit_can_be_given_and_taken_away(client: Client) -> None:
    given, freed, other = limited(client, None), limited(client, 2), limited(client, 2)
    assert client.listing()[given.attempt].limit_s == 0

    client.extend(freed, None)
    client.extend(given, 2)

    has_limit(client, freed, 0)
    assert reached_its_limit(client, given) == "2"
    assert reached_its_limit(client, other) == "2"
    assert client.listing()[freed.attempt].state == "running"


def test_an_older_word_changes_nothing(client: Client) -> None:
    launch = limited(client, 60)
    client.extend(launch, 80, serial=5)
    has_limit(client, launch, 80)

    client.extend(launch, 1, serial=4)
    client.extend(launch, 70, serial=6)

    has_limit(client, launch, 70)
    assert client.listing()[launch.attempt].state == "running"
    assert [seen.limit_s for seen in client.facts_about(launch)[-3:]] == [80, 70, 70]


def test_a_new_server_counts_its_words_anew(runner: RunnerProcess) -> None:
    first = runner.client()
    launch = limited(first, 60)
    first.extend(launch, 80, serial=9)
    has_limit(first, launch, 80)

    second = runner.client(epoch=2)
    second.extend(launch, 70, serial=3)

    has_limit(second, launch, 70)


def test_a_runner_that_dies_right_after_it_wrote_the_limit_has_lost_nothing(
    start_runner: StartRunner, points: Path
) -> None:
    runner = start_runner(kill_points=points)
    client = runner.client()
    launch, other = limited(client, 2), limited(client, 2)
    kill_at(points, killpoint.LIMITED)

    client.extend(launch, 60)

    reached(points, killpoint.LIMITED)
    runner.kill()
    wait_until(lambda: len(runner.supervisors()) == 1, "the other one's end")
    runner.start()
    client = runner.client()
    assert reached_its_limit(client, other) == "2"
    assert client.listing()[launch.attempt].limit_s == 60
    client.extend(launch, 60)  # as a server would that has not heard of it
    has_limit(client, launch, 60)


def test_a_supervisor_that_was_paused_at_its_limit_goes_by_the_newest_word(
    runner: RunnerProcess,
) -> None:
    """The word came before it could look at the clock: then it came first."""
    client = runner.client()
    launch = limited(client, 1)
    (supervisor,) = runner.supervisors()
    os.kill(supervisor, signal.SIGSTOP)
    other = limited(client, 1)
    reached_its_limit(client, other)

    client.extend(launch, 60)
    has_limit(client, launch, 60)
    os.kill(supervisor, signal.SIGCONT)

    client.extend(launch, 61, serial=2)
    has_limit(client, launch, 61)
    third = limited(client, 1)
    reached_its_limit(client, third)
    assert client.listing()[launch.attempt].state == "running"


def test_what_has_ended_or_never_began_is_left_alone(runner: RunnerProcess) -> None:
    client = runner.client()
    launch = client.launch("true", time_limit_s=60)
    client.ended(launch)
    absent = client.a_launch("true")

    client.extend(launch, 80)
    client.extend(absent, 80)

    assert client.listing()[launch.attempt].limit_s == -1
    assert not list(runner.spool.glob("*.lim*"))


def test_a_word_that_comes_before_the_command_begins_counts(
    start_runner: StartRunner, points: Path
) -> None:
    pause_at(points, killpoint.CLAIMED)
    runner = start_runner(kill_points=points)
    client = runner.client()
    launch = client.launch("sleep", "100", time_limit_s=60)
    supervisor = paused(runner)
    assert client.listing()[launch.attempt].state == "starting"

    client.extend(launch, 1)

    has_limit(client, launch, 1)
    os.kill(supervisor, signal.SIGCONT)
    assert reached_its_limit(client, launch) == "1"


def test_nothing_of_it_is_left_when_it_is_forgotten(runner: RunnerProcess) -> None:
    client = runner.client()
    launch = limited(client, 60)
    client.extend(launch, 80)
    has_limit(client, launch, 80)
    assert list(runner.spool.glob("*.lim"))

    client.stop(launch)
    client.ended(launch)
    client.forget(launch)

    wait_until(lambda: not list(runner.spool.glob("*.lim*")), "the file to be gone")
