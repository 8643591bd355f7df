"""The yardstick does what it claims to, and no more."""

from __future__ import annotations

from bench.first_fit import Kind, first_fit

ANY: frozenset[str] = frozenset()


def test_each_gets_the_first_node_that_has_room() -> None:
    cards, cpus = [2, 8], [16, 16]
    line: list[Kind] = [(4, 0, ANY, 1), (1, 0, ANY, 1), (2, 0, ANY, 1)]
    assert first_fit(line, ["A", "A"], cards, cpus) == [(0, [1]), (1, [0]), (2, [1])]
    assert cards == [1, 2]


def test_models_and_cores_count() -> None:
    line: list[Kind] = [(1, 0, frozenset({"B"}), 1), (1, 9, ANY, 1)]
    assert first_fit(line, ["A", "B"], [8, 8], [8, 16]) == [(0, [1]), (1, [1])]


def test_a_gang_takes_all_its_nodes_or_none() -> None:
    cards = [8, 8, 8]
    line: list[Kind] = [(8, 0, ANY, 2), (8, 0, ANY, 2), (1, 0, ANY, 1)]
    assert first_fit(line, ["A"] * 3, cards, [8] * 3) == [(0, [0, 1]), (2, [2])]
    assert cards == [0, 0, 7]
