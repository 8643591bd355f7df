"""Over weeks in which cards are always wanted, everybody gets what the weight is due.

`fairshare` promises that. `balance` looks at this moment only: where there are more people than cards
it gives everybody as many turns, not as much time (docs/explanation/sharing.md).
`make soak PART=month` lets 200 people share 128 cards for 30 days.
"""

from __future__ import annotations

import pytest

from .month import Month, a_month

OFF = 0.10


def worst(month: Month) -> list[str]:
    """Those furthest from what they were due, for whoever reads a failure."""
    found = sorted(month.people, key=lambda one: -abs(one.off))[:5]
    return [
        f"{one.name} {one.off:+.1%} weight {one.weight} {one.sizes} {one.mean_h} h" for one in found
    ]


def check(month: Month) -> None:
    month.run()
    cards_s = sum(one.got_s for one in month.people)
    assert month.idle_s < 0.02 * cards_s, "cards were always wanted"
    assert all(abs(one.off) <= OFF for one in month.people), worst(month)


def test_everybody_gets_his_share_of_two_weeks() -> None:
    check(a_month(seed=1, people=12, nodes=2, days=14))


def test_balance_gives_as_much_where_there_are_many_cards_for_each() -> None:
    check(a_month(seed=1, people=4, nodes=8, days=3, order="balance"))


def test_what_is_measured_can_fail() -> None:
    """First come, first served gives by what is asked, not by weight."""
    month = a_month(seed=1, people=12, nodes=2, days=4, order="fifo")
    month.run()

    assert max(abs(one.off) for one in month.people) > 3 * OFF


@pytest.mark.soak
@pytest.mark.timeout(3000)
def test_two_hundred_people_share_a_month() -> None:
    check(a_month(seed=1, people=200, nodes=16, days=30))
