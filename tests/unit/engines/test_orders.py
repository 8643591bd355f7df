"""From our words to a runner's: the command, and the card numbers some programs want."""

from __future__ import annotations

import pytest

from stoker.engines.fleet.orders import command_with_ids, instant
from tests.helpers.builders import a_spec
from tests.unit.engines.test_link import an_attempt


@pytest.mark.parametrize(
    ("command", "args", "argv", "shell"),
    [
        (("a", "b c"), "", ["a", "b c"], ""),
        (("a",), "--gpu=", ["a", "--gpu=0"], ""),
        (("a",), "--gpu ", ["a", "--gpu", "0"], ""),
        ("a | b", "", [], "a | b"),
        ("a | b\n", "--gpu ", [], "a | b --gpu 0"),
    ],
)
def test_the_command_and_its_cards(
    command: tuple[str, ...] | str, args: str, argv: list[str], shell: str
) -> None:
    spec = a_spec(command=command, gpu_id_args=args, gpus=1)

    assert command_with_ids(spec, an_attempt()) == (argv, shell)


@pytest.mark.parametrize("clock", [0.0, 1e300, float("inf"), float("nan"), -1e300])
def test_a_clock_that_is_broken_breaks_nothing(clock: float) -> None:
    assert instant(clock).tzinfo is not None
