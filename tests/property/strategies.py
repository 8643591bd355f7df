"""What a small lab may look like: few values each, so that things collide.

Nodes are three and differ: one of plain cards, one of mixed models, one whose cards have two
slots. Amounts are multiples of the scheduler's quantum, so that rounding never matters here.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from hypothesis import strategies as st
from msgspec import structs

from stoker.domain.node import Node
from stoker.domain.queue import Queue
from stoker.domain.task import TaskSpec
from stoker.scheduler.policy import Policy
from stoker.scheduler.room import CardLoad
from tests.helpers.builders import a_spec
from tests.helpers.scheduling import a_node

OWNERS = ("ana", "bo", "cy", "dee")
TEAMS = ("red", "blue")
QUEUES = ("default", "fast", "slow")
UNIT_MIB = 2560
CARD_MIB = 4 * UNIT_MIB
MINUTE, HOUR = 60, 3600
NODES: tuple[Node, ...] = (
    a_node("n1", 3, card_mib=CARD_MIB, cpus=4, memory_mib=400),
    a_node(
        "n2",
        models=("NVIDIA A100-SXM4-80GB", "GTX 1080 Ti", "GTX 1080 Ti"),
        card_mib=CARD_MIB,
        cpus=2,
        memory_mib=200,
    ),
    a_node("n3", 2, card_mib=2 * CARD_MIB, slots=2, cpus=4, memory_mib=200),
)
OTHER_NODES: tuple[Node, ...] = (
    a_node("n1", 2, card_mib=CARD_MIB, cpus=3, memory_mib=400),
    a_node("n3", 3, card_mib=CARD_MIB, slots=1, cpus=4, memory_mib=400),
)
"""The same machines after somebody opened them."""

ELEMENTS = {"0-2": (0, 1, 2), "0-4%1": (0, 1, 2, 3, 4), "1,3,5-6%2": (1, 3, 5, 6)}
"""Arrays as people write them, and which indices they mean."""
SWEPT = {"": (0, 1, 2, 3, 4, 5), "%2": (0, 1, 2, 3, 4, 5), "1,4%1": (1, 4)}
"""The same for `array` beside SWEEP."""
SWEEP = {"lr": ("1e-3", "1e-4"), "seed": ("0", "1", "2")}

owners = st.sampled_from(OWNERS)
memberships = st.dictionaries(owners, st.sampled_from(TEAMS))
outcomes = st.sampled_from(["succeeded", "failed", "cancelled", "lost", "deleted"])


def rarely(value: Any, usual: Any) -> st.SearchStrategy[Any]:
    """Mostly `usual`, which is also what a failing example shrinks to."""
    return st.sampled_from([usual, usual, usual, value])


@st.composite
def specs(
    draw: st.DrawFn,
    *,
    modes: tuple[str, ...] = ("exclusive", "exclusive", "shared", "reuse"),
    gangs: bool = True,
    queues: tuple[str, ...] = ("", "fast", "slow"),
    pinned: bool = True,
) -> TaskSpec:
    """A task without dependencies, start time or array."""
    gpus = draw(st.integers(0, 3))
    fields: dict[str, Any] = {
        "gpus": gpus,
        "cpus": draw(rarely(2, None)),
        "memory_mib": draw(rarely(150, None)),
        "queue": draw(st.sampled_from(queues)),
        "urgent": draw(rarely(True, False)),
        "priority": draw(rarely(5, 0)),
        "time_limit_s": draw(st.sampled_from([None, 10 * MINUTE, HOUR, 3 * HOUR])),
        "nodes": draw(rarely(2, 1)) if gangs else 1,
    }
    if pinned:
        fields["node"] = draw(rarely("n2", ""))
    if gpus:
        fields["mode"] = draw(st.sampled_from(modes))
        fields["gpu_model"] = draw(rarely(("1080Ti",), ()))
        if pinned:
            fields["gpu_ids"] = draw(rarely((1,), ()))
    if fields.get("mode") == "shared":
        fields["gpu_memory_mib"] = UNIT_MIB * draw(st.integers(1, 3))
    if fields.get("mode") in ("shared", "reuse"):
        fields["gpu_free_percent"] = draw(rarely(50, None))
    return a_spec(**fields)


@st.composite
def arrays(draw: st.DrawFn) -> TaskSpec:
    if draw(rarely(True, False)):
        return structs.replace(
            draw(specs()), array=draw(st.sampled_from(sorted(SWEPT))), sweep=SWEEP
        )
    return structs.replace(draw(specs()), array=draw(st.sampled_from(sorted(ELEMENTS))))


@st.composite
def policies(draw: st.DrawFn, *, weights: tuple[int, ...] = (1, 2, 0, -1, -2)) -> Policy:
    queues = [
        Queue(
            name=name,
            priority=draw(st.sampled_from([0, 5, -5])),
            nodes=draw(rarely(frozenset({"n1", "n2"}), None)),
            models=draw(rarely(("Test", "A100"), ())),
            most_cards=draw(rarely(3, None)),
            most_cards_each=draw(rarely(2, None)),
            rank=draw(rarely("spread", "pack")),
            people=draw(rarely(("ana",), ())),
            teams=draw(rarely(("red",), ())),
        )
        for name in QUEUES
    ]
    return Policy(
        order=draw(st.sampled_from(["balance", "balance", "fifo", "fairshare"])),
        weights={owner: draw(st.sampled_from(weights)) for owner in OWNERS},
        queues={queue.name: queue for queue in queues},
        quotas={owner: draw(st.integers(1, 4)) for owner in OWNERS if draw(rarely(True, False))},
        teams=draw(memberships),
        team_quotas={team: draw(st.integers(1, 4)) for team in TEAMS if draw(rarely(True, False))},
        backfill=draw(rarely(False, True)),
        reuse_any=draw(rarely(True, False)),
        half_life_s=draw(st.sampled_from([HOUR, 24 * HOUR])),
        slots=draw(rarely(3, 1)),
    )


@st.composite
def loads(draw: st.DrawFn, node: Node, attempts: dict[str, list[str]]) -> list[CardLoad]:
    """What is measured on its cards; `attempts` says who is on which."""
    found = []
    for gpu in node.gpus:
        foreign = draw(rarely(("eve:1:python",), ()))
        foreign_mib = UNIT_MIB * draw(st.integers(0, 2)) if foreign else 0
        mine = {
            attempt: UNIT_MIB * draw(st.integers(0, 3)) for attempt in attempts.get(gpu.uuid, [])
        }
        found.append(
            CardLoad(
                uuid=gpu.uuid,
                used_mib=foreign_mib + sum(mine.values()),
                utilisation=draw(st.sampled_from([0, 40, 80])),
                foreign=foreign,
                foreign_mib=foreign_mib,
                attempts=mine,
            )
        )
    return found


def soon(now: datetime) -> st.SearchStrategy[datetime]:
    return st.sampled_from([now + timedelta(seconds=s) for s in (1, HOUR, 25 * HOUR)])
