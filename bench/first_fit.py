"""The yardstick of `planning`: a first-fit pass with nothing around it.

Tasks in line order; each gets the first node with enough free cards of a right model and enough
cores, a gang the first nodes that have it. What failed once is not tried again. Plain lists and
numbers: no order among owners, no reservation, no reasons, nobody to explain anything to.
"""

from __future__ import annotations

Kind = tuple[int, int, frozenset[str], int]
"""Cards, cores, models (empty: any), nodes."""


def first_fit(
    line: list[Kind], models: list[str], cards: list[int], cpus: list[int]
) -> list[tuple[int, list[int]]]:
    """(place in line, its nodes) of everything that starts. Takes what it gives from `cards` and
    `cpus`, which say what each node has free."""
    started: list[tuple[int, list[int]]] = []
    failed: set[Kind] = set()
    nodes = range(len(models))
    for number, kind in enumerate(line):
        if kind in failed:
            continue
        need, cores, right, count = kind
        found: list[int] = []
        for node in nodes:
            if cards[node] >= need and cpus[node] >= cores and (not right or models[node] in right):
                found.append(node)
                if len(found) == count:
                    break
        if len(found) < count:
            failed.add(kind)
            continue
        for node in found:
            cards[node] -= need
            cpus[node] -= cores
        started.append((number, found))
    return started
