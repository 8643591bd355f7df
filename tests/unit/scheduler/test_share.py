"""Where a person stands: by the same keys as the plan, on both kinds of view."""

from __future__ import annotations

from datetime import timedelta
from fractions import Fraction
from typing import Any

import pytest

from stoker.domain.key import TaskKey
from stoker.scheduler.line import waiting_of
from stoker.scheduler.plan import plan
from stoker.scheduler.policy import Policy
from stoker.scheduler.share import Share, share
from stoker.scheduler.view import ScanningView, View
from tests.helpers.builders import NOON, a_spec
from tests.helpers.scheduling import a_node, carry_out


@pytest.fixture(params=[View, ScanningView])
def kind(request: pytest.FixtureRequest) -> Any:
    return request.param


class Lab:
    """Cards, people, and what they hold and want."""

    def __init__(self, kind: Any, cards: int = 8, **policy: Any) -> None:
        self.view = kind(Policy(**policy))
        self.view.node_up(a_node("n1", cards))
        self._ids = 0

    def wants(self, owner: str, gpus: int = 1, count: int = 1) -> None:
        for _ in range(count):
            self._ids += 1
            spec = a_spec(gpus=gpus)
            self.view.enqueue(
                waiting_of(
                    TaskKey(self._ids), owner, spec, position=self._ids, version=1, since=NOON
                )
            )

    def holds(self, owner: str, gpus: int) -> None:
        self.wants(owner, gpus)
        carry_out(self.view, plan(self.view, NOON), NOON)

    def stands(self, owner: str) -> Share:
        return share(self.view, owner)


def names(found: Share) -> list[str]:
    return [one.owner for one in found.ahead]


def test_the_one_who_holds_least_for_the_weight_is_next(kind: Any) -> None:
    lab = Lab(kind, weights={"cy": 3})
    lab.holds("ana", 3)
    lab.holds("bo", 1)
    lab.holds("cy", 4)
    for owner in ("ana", "bo", "cy"):
        lab.wants(owner, 2, count=2)

    ana = lab.stands("ana")

    assert (ana.place, ana.of, names(ana)) == (3, 3, ["bo", "cy"])
    assert (ana.mine.cost, ana.mine.weight, ana.mine.key, ana.mine.ready) == (3, 1, 3, 2)
    assert ana.ahead[1].key == Fraction(4, 3)
    assert lab.stands("bo").place == 1
    assert [one.owner for one in ana.everybody] == ["bo", "cy", "ana"]


def test_ties_go_by_the_oldest_task(kind: Any) -> None:
    lab = Lab(kind, cards=1)
    lab.holds("dan", 1)
    lab.wants("bo")
    lab.wants("ana")

    assert names(lab.stands("ana")) == ["bo"]


def test_negative_and_zero_weights_go_first(kind: Any) -> None:
    lab = Lab(kind, weights={"neg": -2, "nil": 0})
    lab.holds("neg", 4)
    lab.holds("nil", 4)
    for owner in ("ana", "nil", "neg"):
        lab.wants(owner, 8)

    assert names(lab.stands("ana")) == ["neg", "nil"]
    assert lab.stands("neg").place == 1


def test_who_has_nothing_in_line_is_told_where_one_more_would_stand(kind: Any) -> None:
    lab = Lab(kind, cards=2)
    lab.holds("ana", 2)
    lab.wants("bo")

    new = lab.stands("eve")
    assert (new.place, new.of, new.mine.ready) == (2, 2, 0)
    assert [one.owner for one in new.everybody] == ["bo", "ana", "eve"]
    alone = Lab(kind).stands("eve")
    assert (alone.place, alone.of) == (1, 1)


def test_foreign_use_counts(kind: Any) -> None:
    lab = Lab(kind, cards=1)
    lab.holds("dan", 1)
    lab.wants("ana")
    lab.wants("bo")
    assert lab.stands("ana").place == 1

    assert lab.view.set_foreign("ana", Fraction(1, 2))
    assert not lab.view.set_foreign("ana", Fraction(1, 2))

    ana = lab.stands("ana")
    assert (ana.place, ana.mine.foreign, ana.mine.cards) == (2, Fraction(1, 2), 0)


def test_past_use_counts_with_fairshare_only(kind: Any) -> None:
    lab = Lab(kind, cards=2, order="fairshare")
    lab.holds("ana", 1)
    lab.view.set_foreign("bo", 1)
    lab.view.tick(NOON)
    lab.view.tick(NOON + timedelta(hours=5))
    lab.view.free("attempt-1")
    lab.view.set_foreign("bo", 0)
    lab.holds("dan", 2)
    for owner in ("ana", "bo", "cy"):
        lab.wants(owner)

    ana = lab.stands("ana")
    assert ana.mine.used == pytest.approx(5, rel=0.02)
    assert lab.view.use["bo"] == lab.view.use["ana"], "outside or not is the same"
    assert names(ana) == ["cy"]
    lab.view.set_policy(Policy())
    assert lab.stands("ana").mine.used == 0
    assert lab.stands("ana").place == 1


def test_first_come_first_served_knows_no_shares(kind: Any) -> None:
    lab = Lab(kind, cards=2, order="fifo", weights={"ana": -1})
    lab.holds("bo", 2)
    lab.wants("bo")
    lab.wants("ana")

    assert names(lab.stands("ana")) == ["bo"]
