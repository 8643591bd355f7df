"""One bit per launch number; the highest survives."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.runner import mark
from stoker.runner.mark import Mark


@pytest.fixture
def dir_fd(tmp_path: Path) -> Iterator[int]:
    fd = os.open(tmp_path, os.O_RDONLY)
    yield fd
    os.close(fd)


@given(numbers=st.sets(st.integers(1, 2_000_000), max_size=20))
def test_exactly_the_set_bits_are_set(
    tmp_path_factory: pytest.TempPathFactory, numbers: set[int]
) -> None:
    fd = os.open(tmp_path_factory.mktemp("mark"), os.O_RDONLY)
    bits = Mark(fd)
    for number in numbers:
        bits.set(number)
    again = Mark(fd)
    assert again.highest() == max(numbers, default=0)
    near = {max(0, n + d) for n in numbers for d in (-8, -1, 0, 1, 8)} | {0, 1, 3_000_000}
    for number in near:
        assert again.is_set(number) == mark.is_set(fd, number) == (number in numbers)
    os.close(fd)


def test_room_is_made_ahead_in_blocks(dir_fd: int, tmp_path: Path) -> None:
    bits = Mark(dir_fd)
    size = (tmp_path / "mark").stat().st_size
    assert size == 65536
    bits.cover(8 * size - 1)
    assert (tmp_path / "mark").stat().st_size == size
    bits.cover(8 * size)
    assert (tmp_path / "mark").stat().st_size == 2 * size
    assert bits.highest() == 0


def test_without_the_file_nothing_may_begin(dir_fd: int) -> None:
    with pytest.raises(FileNotFoundError):
        mark.is_set(dir_fd, 1)
