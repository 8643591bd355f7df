"""Throttling: it begins at the fifth failure, ends within 15 minutes, and no stranger locks out."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.access import throttle
from stoker.access.throttle import FREE, MOST_WAIT_S, Throttle, wait_s
from stoker.domain.errors import RequestError
from stoker.domain.person import Tries

BEGIN = datetime(2026, 11, 16, 12, tzinfo=UTC)
HOME, FAR = "10.0.0.7", "192.0.2.1"


def fail(gate: Throttle, name: str, address: str, now: datetime) -> bool:
    return gate.failed(gate.begin(name, address, now, is_known=True), now)


def succeed(gate: Throttle, name: str, address: str, now: datetime) -> bool:
    return gate.succeeded(gate.begin(name, address, now, is_known=True))


def wait(gate: Throttle, name: str, address: str, now: datetime) -> int:
    try:
        gate.withdrawn(gate.begin(name, address, now, is_known=True))
    except RequestError as error:
        return int(str(error.values["retry_after_s"])) if error.code == "too_many_logins" else -1
    return 0


def fail_often(gate: Throttle, name: str, address: str, times: int) -> datetime:
    now = BEGIN
    for _ in range(times):
        now += timedelta(seconds=wait(gate, name, address, now))
        fail(gate, name, address, now)
    return now


def test_it_doubles_from_the_fifth_on() -> None:
    assert [wait_s(n) for n in range(9)] == [0, 0, 0, 0, 0, 1, 2, 4, 8]
    assert max(wait_s(n) for n in range(1000)) == MOST_WAIT_S == 900


def test_four_mistakes_cost_nothing() -> None:
    gate = Throttle()
    now = fail_often(gate, "ana", HOME, FREE - 1)
    assert wait(gate, "ana", HOME, now) == 0
    fail(gate, "ana", HOME, now)
    assert wait(gate, "ana", HOME, now) == 1


def test_an_account_is_guarded_from_many_addresses_and_an_address_for_many_accounts() -> None:
    gate = Throttle()
    for number in range(FREE):
        fail(gate, "ana", f"192.0.2.{number}", BEGIN)
    assert wait(gate, "ana", "192.0.2.99", BEGIN) == 1
    assert wait(gate, "bo", "192.0.2.99", BEGIN) == 0

    gate = Throttle()
    for number in range(FREE):
        fail(gate, f"person{number}", FAR, BEGIN)
    assert wait(gate, "bo", FAR, BEGIN) == 1


def test_one_ipv6_network_is_one_address() -> None:
    gate = Throttle()
    for number in range(FREE):
        fail(gate, f"person{number}", f"2001:db8::{number}", BEGIN)
    assert wait(gate, "bo", "2001:db8::ffff", BEGIN) == 1
    assert wait(gate, "bo", "2001:db9::1", BEGIN) == 0


def test_strangers_do_not_keep_a_person_from_where_that_person_comes() -> None:
    gate = Throttle()
    succeed(gate, "ana", HOME, BEGIN)
    now = fail_often(gate, "ana", FAR, 20)
    assert wait(gate, "ana", FAR, now) == MOST_WAIT_S
    assert wait(gate, "ana", HOME, now) == 0
    now = fail_often(gate, "ana", HOME, FREE)  # what counts there is what fails there
    assert wait(gate, "ana", HOME, now) == 1


def test_the_right_password_ends_it_but_not_for_the_address() -> None:
    gate = Throttle()
    now = fail_often(gate, "ana", FAR, 8) + timedelta(seconds=wait_s(8))
    assert succeed(gate, "ana", FAR, now)
    assert wait(gate, "ana", "192.0.2.9", now) == 0
    fail(gate, "bo", FAR, now)
    assert wait(gate, "bo", FAR, now) == wait_s(9)


def test_tries_at_the_same_moment_are_bounded_too() -> None:
    gate = Throttle()
    for _ in range(throttle.MOST_AT_ONCE):
        gate.begin("ana", HOME, BEGIN, is_known=True)
    assert wait(gate, "ana", HOME, BEGIN) == 1

    gate = Throttle()
    now = fail_often(gate, "ana", HOME, FREE) + timedelta(seconds=1)
    gate.begin("ana", HOME, now, is_known=True)  # under way: nobody else may guess meanwhile
    assert wait(gate, "ana", HOME, now) == 1


def test_a_clock_that_was_put_back_does_not_make_it_longer() -> None:
    gate = Throttle()
    fail_often(gate, "ana", HOME, 20)
    before = BEGIN - timedelta(days=400)
    assert wait(gate, "ana", HOME, before) == MOST_WAIT_S
    assert wait(gate, "ana", HOME, before + timedelta(seconds=MOST_WAIT_S)) == 0


def test_it_is_forgotten_after_a_day() -> None:
    gate = Throttle()
    now = fail_often(gate, "ana", HOME, 20) + timedelta(days=1, seconds=1)
    fail(gate, "ana", HOME, now)
    assert wait(gate, "ana", HOME, now) == 0


def test_what_is_kept_survives_and_holds_no_name_that_nobody_has() -> None:
    gate = Throttle()
    succeed(gate, "bo", HOME, BEGIN)
    now = fail_often(gate, "ana", FAR, 7)
    for _ in range(FREE):
        gate.failed(gate.begin("hunter2-hunter2", "192.0.2.8", now, is_known=False), now)
    kept = gate.kept(now)
    text = msgspec.json.encode(kept)
    after = Throttle(msgspec.json.decode(text, type=Tries))
    assert wait(after, "ana", "192.0.2.200", now) == wait_s(7)
    assert wait(after, "bo", FAR, now) == wait_s(7)
    assert wait(after, "bo", HOME, now) == 0
    assert b"hunter2" not in text
    assert not any(key.startswith("nobody ") for key in kept.failed)


def test_memory_is_bounded_and_a_flood_hides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throttle, "MOST_KEYS", 100)
    gate = Throttle()
    now = fail_often(gate, "ana", FAR, 10)
    for number in range(1000):
        fail(gate, f"x{number}", f"10.1.{number // 250}.{number % 250}", now)
        assert len(gate) <= 102
    assert wait(gate, "ana", "192.0.2.200", now) > 0


def test_it_is_worth_a_note_when_waiting_begins_and_when_it_is_at_its_worst() -> None:
    gate, now = Throttle(), BEGIN
    noted = []
    for number in range(1, 30):
        now += timedelta(seconds=wait(gate, "ana", HOME, now))
        if fail(gate, "ana", HOME, now):
            noted.append(number)
    assert noted == [FREE, 15]


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["ana", "bo"]),
        st.sampled_from([HOME, FAR, "2001:db8::1"]),
        st.sampled_from(["fail", "succeed", "withdraw", "restart"]),
        st.integers(-5, 2000),
    ),
    max_size=60,
)


@settings(deadline=None)
@given(STEPS)
def test_whatever_happened_who_waits_is_let_in_within_15_minutes(
    steps: list[tuple[str, str, str, int]],
) -> None:
    gate, now = Throttle(), BEGIN
    for name, address, what, seconds in steps:
        now += timedelta(seconds=seconds)
        if what == "restart":
            gate = Throttle(gate.kept(now))
            continue
        try:
            attempt = gate.begin(name, address, now, is_known=True)
        except RequestError:
            continue
        if what == "fail":
            gate.failed(attempt, now)
        elif what == "succeed":
            gate.succeeded(attempt)
        else:
            gate.withdrawn(attempt)
    for address in (HOME, FAR):
        told = wait(gate, "ana", address, now)
        assert 0 <= told <= MOST_WAIT_S
        later = now + timedelta(seconds=told)
        assert wait(gate, "ana", address, later) == 0
        succeed(gate, "ana", address, later)
