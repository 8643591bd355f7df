"""A made-up day of a lab: 12 nodes with 8 cards, 30 people, more wanted than there is.

Sweeps are arrays of one-card tasks, some with a cap; debug tasks take minutes; training takes one to
four cards for hours; a few want a whole node for as long as it takes and set no time limit. People
work from nine to midnight. The same day every time.
"""

from __future__ import annotations

from random import Random

from stoker.domain.node import Gpu, Node
from stoker.scheduler.needs import Needs

from .load import Job, Load

NODES, CARDS, PEOPLE = 12, 8, 30
SEED = 1
MINUTE, HOUR = 60, 3600
SWEEPS, DEBUG, TRAINING, WHOLE_NODE = 14, 400, 90, 16
CPUS_PER_CARD = 6


def the_day() -> Load:
    chance = Random(SEED)
    jobs = [
        *(_sweep(chance) for _ in range(SWEEPS)),
        *(_debug(chance) for _ in range(DEBUG)),
        *(_training(chance) for _ in range(TRAINING)),
        *(_whole_node(chance) for _ in range(WHOLE_NODE)),
    ]
    load = Load(
        "a lab's day",
        "",
        tuple(_node(number) for number in range(NODES)),
        tuple(sorted(jobs, key=lambda job: job.at)),
    )
    hours = sum(sum(job.runs_s) * job.needs.gpus for job in jobs) / HOUR
    return load._replace(
        about=f"{NODES} nodes with {CARDS} cards, {PEOPLE} people, {load.starts:,} tasks:"
        f" {SWEEPS} sweeps, {DEBUG} debug tasks, {TRAINING} trainings, {WHOLE_NODE} tasks of 8 cards"
        f" without time limit; {hours:,.0f} card hours wanted, {24 * load.cards:,} in a day"
    )


def _sweep(chance: Random) -> Job:
    count, typical = chance.randint(20, 120), chance.randint(15, 75) * MINUTE
    runs = tuple(round(typical * chance.uniform(0.5, 1.5)) for _ in range(count))
    limit = chance.choice((2 * HOUR, 4 * HOUR, None))
    cap = chance.choice((None, 16, 32))
    return Job(_moment(chance), _person(chance), _cards(1), runs, limit, is_array=True, cap=cap)


def _debug(chance: Random) -> Job:
    runs = chance.randint(1 * MINUTE, 15 * MINUTE)
    limit = chance.choice((30 * MINUTE, 30 * MINUTE, None))
    return Job(_moment(chance), _person(chance), _cards(1), (runs,), limit)


def _training(chance: Random) -> Job:
    runs = chance.randint(1 * HOUR, 8 * HOUR)
    limit = chance.choice((12 * HOUR, 24 * HOUR, None))
    return Job(
        _moment(chance), _person(chance), _cards(chance.choice((1, 2, 2, 4))), (runs,), limit
    )


def _whole_node(chance: Random) -> Job:
    return Job(
        _moment(chance), _person(chance), _cards(CARDS), (chance.randint(3 * HOUR, 10 * HOUR),)
    )


def _moment(chance: Random) -> int:
    """Nine of ten between nine and midnight."""
    if chance.random() < 0.1:
        return chance.randrange(24 * HOUR)
    return 9 * HOUR + chance.randrange(15 * HOUR)


def _person(chance: Random) -> str:
    """Some do much more than others."""
    return f"person-{min(chance.randrange(PEOPLE), chance.randrange(PEOPLE)):02}"


def _cards(count: int) -> Needs:
    return Needs(gpus=count, cpus=CPUS_PER_CARD * count)


def _node(number: int) -> Node:
    name = f"lab-{number:02}"
    gpus = tuple(Gpu(card, f"{name}-{card}", "RTX 4090", 24_576) for card in range(CARDS))
    return Node(name=name, cpus=CARDS * CPUS_PER_CARD, memory_mib=524_288, gpus=gpus)
