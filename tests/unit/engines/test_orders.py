"""From our words to a runner's: the command, and the card numbers some programs want."""

from __future__ import annotations

import pytest
from msgspec import structs

from stoker.engines.base import LaunchOrder
from stoker.engines.fleet.orders import command_with_ids, instant, sample_from, to_launch
from stoker.runner import protocol
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


def test_an_element_learns_which_one_it_is() -> None:
    spec = a_spec(env={"A": "1"})
    plain = an_attempt()
    element = structs.replace(plain, task_id=17, task_element=3)

    launch = to_launch(LaunchOrder(attempt=element, spec=spec, owner="ana"), 1)
    assert (launch.task, launch.env) == ("17", {"A": "1", "STOKER_ARRAY_INDEX": "3"})
    launch = to_launch(LaunchOrder(attempt=plain, spec=spec, owner="ana"), 1)
    assert (launch.task, launch.env) == (str(plain.task_id), {"A": "1"})


def test_memory_is_counted_by_attempt_and_for_strangers() -> None:
    processes = [
        protocol.GpuProcess(1, "ana", 100, part="aaaa.0", command="python"),
        protocol.GpuProcess(2, "ana", 50, part="aaaa.0", command="python"),
        protocol.GpuProcess(3, "bob", 30, part="bbbb.0", command="python"),
        protocol.GpuProcess(4, "eve", 7, command="miner"),
        protocol.GpuProcess(5, "eve", 8, command="miner"),
    ]
    card = protocol.GpuSample("gpu-0", 195, 40, processes=processes)

    (use,) = sample_from("node-a", protocol.Sample(0.0, 0.0, 1, 1, [card])).cards

    assert use.attempts == {"aaaa": 150, "bbbb": 30}
    assert (use.foreign, use.foreign_mib) == (("eve:4:miner", "eve:5:miner"), 15)
