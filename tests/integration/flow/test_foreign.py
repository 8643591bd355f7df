"""GPU use outside of any task counts in the share of whose account it is."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from stoker.domain.person import Person
from stoker.engines.base import CardUse, NodeDown, NodeSampled
from stoker.flow.context import Flow
from stoker.lab.book import Put
from stoker.scheduler.share import share
from tests.helpers.builders import NOON
from tests.helpers.flows import one, say, settled, until, until_running


async def know(flow: Flow, *people: Person) -> None:
    await flow.book.amend([Put("person", person.name, person) for person in people])


def sampled(flow: Flow, *cards: Sequence[str]) -> None:
    """One list of accounts with foreign processes for each card."""
    gpus = flow.view.rooms["node-a"].node.gpus
    uses = tuple(
        CardUse(
            uuid=gpu.uuid,
            memory_used_mib=100,
            utilisation=50,
            foreign=tuple(f"{account}:{7 + n}:python" for n, account in enumerate(accounts)),
            foreign_mib=100 * len(accounts),
        )
        for gpu, accounts in zip(gpus, (*cards, *[()] * 9), strict=False)
    )
    fact = NodeSampled(
        node="node-a", at=NOON, load1=0, memory_available_mib=1, disk_free_mib=1, cards=uses
    )
    say(flow, fact)


async def test_each_card_counts_one_however_many_processes(flow: Flow) -> None:
    await know(flow, Person(name="ana"), Person(name="bo", account="bob"))

    sampled(flow, ["ana", "ana"], ["ana"], ["bob"])
    await until(lambda: bool(flow.view.cost("bo")))

    assert (flow.view.cost("ana"), flow.view.foreign("ana")) == (2, 2)
    assert flow.view.cost("bo") == 1
    assert flow.view.cards_of("ana") == 0, "no quota counts it"
    sampled(flow)
    await until(lambda: not flow.view.cost("ana"))
    assert not flow.view.cost("bo")


async def test_several_accounts_on_a_card_share_its_cost(flow: Flow) -> None:
    await know(flow, Person(name="ana"), Person(name="bo", accounts={"node-a": "b2"}))

    sampled(flow, ["ana", "b2", "stranger"], ["bo"])
    await until(lambda: bool(flow.view.cost("ana")))

    assert flow.view.cost("ana") == flow.view.cost("bo") == Fraction(1, 3)


async def test_an_account_of_nobody_or_of_several_costs_nobody_anything(flow: Flow) -> None:
    await know(flow, Person(name="ana", account="lab"), Person(name="bo", account="lab"))
    await know(flow, Person(name="cy"))

    sampled(flow, ["lab"], ["root"], ["cy"])
    await until(lambda: bool(flow.view.cost("cy")))

    assert flow.view.owners() == {"cy"}


async def test_a_card_that_a_task_of_theirs_holds_is_paid_already(flow: Flow) -> None:
    await know(flow, Person(name="ana"))
    key = await one(flow, gpus=1)
    task = await until_running(flow, key)
    assert task.gpu_ids == (0,)

    sampled(flow, ["ana"], ["ana"])
    await until(lambda: bool(flow.view.foreign("ana")))

    assert (flow.view.cost("ana"), flow.view.foreign("ana")) == (2, 1)


async def test_a_node_out_of_reach_tells_nothing(flow: Flow) -> None:
    await know(flow, Person(name="ana"))
    sampled(flow, ["ana"])
    await until(lambda: bool(flow.view.cost("ana")))

    say(flow, NodeDown(node="node-a", at=NOON))

    await until(lambda: not flow.view.cost("ana"))


async def test_who_uses_cards_outside_goes_after_who_does_not(flow: Flow) -> None:
    await know(flow, Person(name="ana"), Person(name="bo"))
    await until_running(flow, await one(flow, gpus=4, owner="cy"))
    await one(flow, gpus=1)
    await one(flow, gpus=1, owner="bo")
    await settled(flow)
    assert [one.owner for one in share(flow.view, "bo").ahead] == ["ana"]

    sampled(flow, ["ana"])
    await until(lambda: flow.view.cost("ana") == 1)

    assert [one.owner for one in share(flow.view, "ana").ahead] == ["bo"]
    assert share(flow.view, "bo").place == 1
