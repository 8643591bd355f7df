"""From a seed: a cluster, people, a policy, what they do and what goes wrong. Pure values.

Every seed has a theme, so that each kind of trouble is met often enough; themes only change how
likely things are. Times are virtual seconds from the start.
"""

from __future__ import annotations

from random import Random
from typing import Any

from msgspec import Struct

from stoker.domain.node import Gpu, Node
from stoker.domain.queue import Queue
from stoker.scheduler.policy import Policy

from .wire import Weather

ACTS = 200
"""What people do, at least; noise on cards and faults come on top."""
THEMES = (
    "mixed", "full", "shares", "sharing", "arrays", "crashes", "network", "clock", "again",
)  # fmt: skip
MODELS = (
    ("NVIDIA A100-SXM4-80GB", 81_920),
    ("NVIDIA GeForce RTX 3090", 24_576),
    ("Tesla T4", 15_360),
)
QUICK, SLOW = (0.0005, 0.001, 0.003, 0.02), (0.05, 0.2, 0.2, 1.0)
ALWAYS = ("kill", "lose", "reboot")
FAULTS = (
    "kill", "kill_at_commit", "kill_at_event", "kill_at_point", "kill_twice", "lose", "reboot", "slow",
    "disk_full", "clock", "supervisor", "runner", "spool", "storm",
)  # fmt: skip


class Moment(Struct, frozen=True, order=True):
    """Something happens at `at`; the rest is drawn when it does."""

    at: float
    kind: str
    what: str


class Scenario(Struct, frozen=True):
    seed: int
    theme: str
    nodes: tuple[Node, ...]
    people: tuple[str, ...]
    policy: Policy
    weather: Weather
    shaky: float
    """How likely a fact comes late or twice."""
    disk: tuple[float, ...]
    """How long a commit waits for the disk; one of these each time."""
    pauses: tuple[float, ...]
    """How long supervisors are paused before their claim; one of these each time."""
    moments: tuple[Moment, ...]
    ends: float
    """When the quiet tail begins."""
    weights: dict[str, int]
    """How often people do what."""


def make_scenario(seed: int) -> Scenario:
    rng = Random(f"scenario {seed}")
    theme = THEMES[seed % len(THEMES)]
    people = tuple(f"p{i}" for i in range(rng.randint(2, 6)))
    nodes = _nodes(rng, theme)
    every = rng.uniform(1.0, 5.0) if theme != "crashes" else rng.uniform(0.3, 1.0)
    moments, at = [], 2.0
    acts = _acts(theme)
    names, chances = list(acts), list(acts.values())
    for _ in range(ACTS):
        at += rng.expovariate(1 / every)
        moments.append(Moment(at, "act", rng.choices(names, chances)[0]))
    ends = at + 20.0
    moments += [Moment(rng.uniform(0, ends), "noise", "sample") for _ in range(rng.randint(5, 25))]
    moments += [Moment(rng.uniform(5, ends), "fault", what) for what in _faults(rng, theme)]
    return Scenario(
        seed=seed,
        theme=theme,
        nodes=nodes,
        people=people,
        policy=_policy(rng, theme, people, nodes),
        weather=_weather(rng, theme),
        shaky=rng.choice((0.0, 0.02, 0.2)) if theme != "again" else 0.4,
        disk=QUICK if theme == "crashes" or rng.random() < 0.6 else SLOW,
        pauses=(0.0,) * (4 if theme == "again" else 12) + (1.0, 20.0, 90.0),
        moments=tuple(sorted(moments)),
        ends=ends,
        weights=acts,
    )


def _nodes(rng: Random, theme: str) -> tuple[Node, ...]:
    most = {"full": 2, "shares": 3, "sharing": 2}.get(theme, 6)
    made = []
    for number in range(rng.randint(1, most)):
        name = f"n{number}"
        count = rng.choice((1, 2, 4, 8, 8)) if theme != "full" else rng.choice((2, 4))
        slots = rng.choice((1, 1, 1, 2)) if theme != "sharing" else rng.choice((1, 2, 3))
        mixed = rng.random() < 0.3
        first = rng.randrange(len(MODELS))
        gpus = []
        for index in range(count):
            model, memory = MODELS[(first + (index % 2 if mixed else 0)) % len(MODELS)]
            gpus.append(Gpu(index, f"{name}-gpu-{index}", model, memory, True, slots))
        made.append(
            Node(
                name=name,
                cpus=rng.choice((4, 16, 64)),
                memory_mib=rng.choice((16_000, 128_000)),
                gpus=tuple(gpus),
            )
        )
    return tuple(made)


def draw_policy(rng: Random, people: tuple[str, ...], nodes: tuple[Node, ...]) -> Policy:
    """Any policy a lab could think of."""
    return _policy(rng, rng.choice(("mixed", "shares", "full")), people, nodes)


def _policy(rng: Random, theme: str, people: tuple[str, ...], nodes: tuple[Node, ...]) -> Policy:
    weights, quotas = {}, {}
    for person in people:
        if theme == "shares" or rng.random() < 0.3:
            weights[person] = rng.choice((-3, -1, 0, 0, 1, 1, 2, 5))
        if rng.random() < (0.5 if theme == "shares" else 0.15):
            quotas[person] = rng.randint(1, 6)
    order = "balance"
    if theme not in ("shares", "clock"):
        order = rng.choice(("balance", "balance", "fifo", "fairshare"))
    if theme == "full":
        weights = {person: max(1, weight) for person, weight in weights.items()}
        quotas = {}
    teams, team_quotas = _teams(theme, people, f"{order} {weights} {quotas}")
    return Policy(
        order=order,  # type: ignore[arg-type]
        weights=weights,
        quotas=quotas,
        teams=teams,
        team_quotas=team_quotas,
        queues=_queues(rng, theme, nodes),
        backfill=rng.random() < 0.9 or theme == "full",
        keep_s=rng.choice((120, 600, 7200)) if theme != "clock" else 10**6,
        patient_s=rng.choice((600, 86_400)),
        reuse_any=rng.random() < 0.2,
        urgent_each=rng.choice((1, 1, 3)),
    )


def _teams(
    theme: str, people: tuple[str, ...], drawn: str
) -> tuple[dict[str, str], dict[str, int]]:
    """Some labs have teams. Drawn apart, so that what else is drawn stays as it is without them."""
    rng = Random(f"teams {theme} {people} {drawn}")
    if theme == "full" or rng.random() < (0.4 if theme == "shares" else 0.7):
        return {}, {}
    teams = {person: rng.choice(("t0", "t1")) for person in people if rng.random() < 0.8}
    return teams, {team: rng.randint(1, 8) for team in ("t0", "t1") if rng.random() < 0.7}


def _queues(rng: Random, theme: str, nodes: tuple[Node, ...]) -> dict[str, Queue]:
    queues = {"default": Queue(name="default", rank=rng.choice(("pack", "spread")))}
    if theme not in ("full", "clock") and rng.random() < 0.5:
        some = frozenset(n.name for n in nodes if rng.random() < 0.7) or None
        queues["short"] = Queue(
            name="short",
            priority=rng.choice((-5, 0, 5)),
            nodes=some if rng.random() < 0.5 else None,
            most_cards=rng.choice((None, None, 3)),
            most_cards_each=rng.choice((None, None, 2)),
            longest_s=rng.choice((None, 3600)),
            rank=rng.choice(("pack", "spread")),
        )
    return queues


def _weather(rng: Random, theme: str) -> Weather:
    if theme == "network":
        return Weather(
            latency_s=rng.choice((0.002, 0.05, 0.5)),
            lose=rng.choice((0.0, 0.02, 0.1)),
            double=rng.choice((0.0, 0.1)),
            jumble=rng.choice((0.0, 0.1)),
        )
    return Weather(
        latency_s=rng.choice((0.001, 0.01)),
        lose=rng.choice((0.0, 0.0, 0.02)),
        double=rng.choice((0.0, 0.05)),
        jumble=rng.choice((0.0, 0.05)),
    )


def _acts(theme: str) -> dict[str, int]:
    acts = {
        "submit": 90, "cancel": 20, "hold": 8, "release": 12, "edit": 10, "move": 10,
        "requeue": 10, "extend": 14, "delete": 8, "resubmit": 8, "drain": 4, "resume": 6, "policy": 3,
    }  # fmt: skip
    if theme == "full":
        acts |= {"submit": 150, "cancel": 10, "requeue": 3, "drain": 1, "policy": 0, "edit": 3}
    if theme == "again":
        acts |= {"requeue": 60, "cancel": 30}
    if theme == "clock":
        acts |= {"policy": 0, "extend": 0}
    if theme == "arrays":
        acts |= {"delete": 20}
    if theme in ("arrays", "mixed"):
        acts |= {"retain": 6}
    if theme in ("shares", "crashes", "mixed"):
        acts |= {"pause": 5, "unpause": 12}
    return acts


def _faults(rng: Random, theme: str) -> list[str]:
    if theme == "crashes":
        return (
            ["kill"] * 6
            + ["kill_at_commit"] * 5
            + ["kill_at_event"] * 6
            + ["kill_at_point"] * 5
            + ["kill_twice"] * 3
            + ["crash_loop"] * (rng.random() < 0.4)
        )
    if theme == "network":
        return ["lose"] * 6 + ["reboot"] * 3 + ["slow", "runner", "runner", "supervisor", "kill"]
    if theme == "clock":
        return ["clock"] * 6 + ["kill", "kill_at_commit"]
    if theme == "again":
        return ["supervisor"] * 2 + ["kill_at_event"] * 6 + ["lose", "runner"]
    if theme == "full":
        return rng.sample(("kill", "slow", "disk_full", "clock", "runner"), 3)
    some = [*rng.sample(ALWAYS, 2), *rng.choices(FAULTS, k=rng.randint(2, 6))]
    return [*some, "disk_full", "disk_full"] if theme == "mixed" else some


SWEEPS = {"0-3": (2, 2), "0-5": (2, 3), "0-11": (3, 4), "1,3,5-7": (2, 4)}
"""Arrays as combinations of so many values: all of them, or those that are picked."""


def as_sweep(fields: dict[str, Any]) -> dict[str, Any]:
    """The same with its elements, if it has any, as combinations of values."""
    indices, percent, cap = fields.get("array", "").partition("%")
    if indices not in SWEEPS:
        return fields
    first, second = (tuple(map(str, range(count))) for count in SWEEPS[indices])
    picked = indices if "," in indices else ""
    swept = {"lr": first, "seed": second}
    return fields | {
        "array": picked + percent + cap, "sweep": swept, "env": {"BOTH": "{lr}/{seed}"},
    }  # fmt: skip


def draw_fields(rng: Random, scenario: Scenario) -> dict[str, Any]:
    """Fields of a task, but for its command and what refers to other tasks."""
    draw = {"full": _full, "sharing": _sharing}.get(scenario.theme, _any)
    fields = draw(rng, scenario)
    if rng.random() < 0.15:
        fields["priority"] = rng.choice((-5, 5, 100))
    if scenario.theme == "clock":  # nothing that a person ties to the clock
        fields.pop("time_limit_s", None)
        fields.pop("retries", None)
    if "short" in scenario.policy.queues and rng.random() < 0.4:
        fields["queue"] = "short"
        fields.setdefault("time_limit_s", rng.choice((60, 600, 3600)))
    return fields


def _full(rng: Random, scenario: Scenario) -> dict[str, Any]:
    """A cluster that is full of short tasks, and big ones that must not starve."""
    largest = max(len(node.gpus) for node in scenario.nodes)
    if rng.random() < 0.12:
        return {"gpus": largest, "time_limit_s": rng.choice((None, 30, 120))}
    gpus = rng.choice((1, 1, 1, 2)) if largest > 1 else 1
    return {"gpus": gpus, "time_limit_s": rng.choice((None, 10, 30, 60, 120, 240))}


def _sharing(rng: Random, scenario: Scenario) -> dict[str, Any]:
    """Tasks that share cards by memory, reuse them, or have a slot of their own."""
    mode = rng.choice(("shared", "shared", "shared", "reuse", "exclusive"))
    fields: dict[str, Any] = {"gpus": rng.choice((1, 1, 2)), "mode": mode}
    if mode == "shared":
        fields["gpu_memory_mib"] = rng.choice((2_000, 6_000, 7_600, 12_000, 20_000))
        if rng.random() < 0.15:
            fields["gpu_free_percent"] = rng.choice((10, 50))
    return fields


def _any(rng: Random, scenario: Scenario) -> dict[str, Any]:
    gpus = rng.choice((0, 0, 1, 1, 1, 1, 2, 2, 4, 8))
    fields: dict[str, Any] = {"gpus": gpus}
    if gpus and rng.random() < 0.15:
        fields |= _sharing(rng, scenario)
    node = rng.choice(scenario.nodes).name
    array = rng.choice(("0-3", "0-5", "1,3,5-7", "0-11")) + rng.choice(("", "%1", "%2", "%3"))
    again, arrays = scenario.theme == "again", scenario.theme == "arrays"
    for name, chance, value in (
        ("gpu_model", 0.1 * bool(gpus), (rng.choice(("A100", "3090", "T4")),)),
        ("gpu_ids", 0.08 * bool(gpus), (rng.randrange(4),)),
        ("node", 0.1, node),
        ("cpus", 0.2, rng.choice((1, 4, 16))),
        ("memory_mib", 0.2, rng.choice((1_000, 8_000, 64_000))),
        ("time_limit_s", 0.5, rng.choice((5, 30, 120, 600, 3600))),
        ("retries", 0.5 if again else 0.15, rng.choice((1, 2, 5))),
        ("requeue_on_loss", 0.15, True),
        ("urgent", 0.06, True),
        ("hold", 0.08, True),
        ("array", 0.4 if arrays else 0.08, array),
    ):
        if rng.random() < chance:
            fields[name] = value
    return fields
