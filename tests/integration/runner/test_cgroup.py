"""Control groups for real, as far as this machine lets us: limits, tracking, kill.

A system with fewer hierarchies is had by showing `find` a mount table without the others.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from stoker.runner.cgroup import Cgroups, Group
from stoker.runner.hierarchy import hierarchies

PART = "a1.0"
_numbers = count()


def wait_until(condition: Callable[[], bool], timeout_s: float = 20) -> None:
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


@pytest.fixture
def find(tmp_path: Path) -> Iterator[Callable[[str], Cgroups]]:
    """`find("freezer")`: only that hierarchy; `find("")`: all there are. Cleans up."""
    made: list[Cgroups] = []

    def find_some(only: str) -> Cgroups:
        proc = "/proc/self" if not only else str(mounted(tmp_path, only))
        name = f"test-{os.getpid()}-{next(_numbers)}"
        made.append(Cgroups.find(name, proc))
        return made[-1]

    yield find_some
    for cgroups in made:
        for name in cgroups.names():
            group = cgroups.open(name)
            group.kill()
            wait_until(lambda group=group: not group.pids())  # type: ignore[misc]
            group.remove()
        assert cgroups.names() == []
        cgroups.remove()


def mounted(folder: Path, only: str) -> Path:
    """A /proc/self with only one kind of hierarchy in it."""
    proc = folder / f"proc-{only}"
    proc.mkdir()
    kind = "cgroup2 " if only == "v2" else f",{only}"
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    kept = [line for line in lines if kind in line.partition(" - ")[2]]
    if not kept:
        pytest.skip(f"needs a mounted cgroup hierarchy: {only}")
    (proc / "mountinfo").write_text("\n".join(kept) + "\n")
    (proc / "cgroup").write_text(Path("/proc/self/cgroup").read_text())
    return proc


@pytest.fixture(params=["v2", "freezer", "pids", "memory"])
def tracking(request: pytest.FixtureRequest, find: Callable[[str], Cgroups]) -> Cgroups:
    """One way of tracking after the other."""
    cgroups = find(request.param)
    group = cgroups.create("probe.0", None, None)
    if not folders_named("probe.0"):
        pytest.skip(f"needs a writable cgroup: {request.param}")
    group.remove()
    return cgroups


@pytest.fixture
def limiting(find: Callable[[str], Cgroups]) -> Cgroups:
    cgroups = find("")
    if cgroups.limits != ["cpus", "memory"]:
        pytest.skip("needs writable cpu and memory cgroups")
    return cgroups


def folders_named(part: str) -> list[str]:
    found = []
    for hierarchy in hierarchies():
        for folder, names, _ in os.walk(hierarchy.mount):
            found += [os.path.join(folder, name) for name in names if name == part]
    return found


def start_in(group: Group, *argv: str) -> subprocess.Popen[bytes]:
    # No threads here, and a moment before exec in the child is what `join` is for.
    return subprocess.Popen(argv, preexec_fn=group.join, stdout=subprocess.PIPE)  # noqa: PLW1509


def test_a_process_above_its_memory_limit_is_killed_and_counted(limiting: Cgroups) -> None:
    group = limiting.create(PART, None, 64)
    greedy = start_in(group, sys.executable, "-c", "x = bytearray(256 << 20)")
    greedy.communicate(timeout=60)
    assert greedy.returncode == -signal.SIGKILL
    assert group.oom_kills() > 0
    assert limiting.open(PART).oom_kills() > 0
    group.remove()
    assert folders_named(PART) == []


def test_a_modest_process_is_left_alone(limiting: Cgroups) -> None:
    group = limiting.create(PART, 1, 256)
    modest = start_in(group, sys.executable, "-c", "x = bytearray(16 << 20); print(len(x))")
    assert modest.communicate(timeout=60)[0] == b"16777216\n"
    assert (modest.returncode, group.oom_kills()) == (0, 0)


def test_swap_is_no_way_out(limiting: Cgroups) -> None:
    limiting.create(PART, None, 64)
    limits = {
        name: Path(folder, name).read_text().strip()
        for folder in folders_named(PART)
        for name in ("memory.memsw.limit_in_bytes", "memory.swap.max")
        if Path(folder, name).exists()
    }
    if not limits:
        pytest.skip("needs a kernel that counts swap")
    assert set(limits.values()) <= {str(64 << 20), "0"}


BURN = """
import os, time
if os.fork() == 0:
    other = True
end = time.monotonic() + 1.0
while time.monotonic() < end:
    pass
used = time.process_time()
if "other" in globals():
    os._exit(0)
os.wait()
children = os.times()
print(used + children.children_user + children.children_system)
"""


def test_two_busy_processes_with_one_cpu_get_about_one(limiting: Cgroups) -> None:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("needs 2 processors")
    free = start_in(limiting.create("free.0", None, None), sys.executable, "-c", BURN)
    unlimited_s = float(free.communicate(timeout=60)[0])
    bound = start_in(limiting.create(PART, 1, None), sys.executable, "-c", BURN)
    limited_s = float(bound.communicate(timeout=60)[0])
    quotas = [
        path.read_text().split()[0]
        for folder in folders_named(PART)
        for path in (Path(folder, "cpu.cfs_quota_us"), Path(folder, "cpu.max"))
        if path.exists()
    ]
    assert "100000" in quotas
    # Of the second that each may burn; others use this machine as well, so both bounds are wide.
    assert limited_s < 1.4
    assert limited_s < unlimited_s * 0.85 or unlimited_s < 1.4


def test_kill_ends_what_fled_session_parent_and_environment(tracking: Cgroups) -> None:
    group = tracking.create(PART, None, None)
    flight = "env -i setsid sh -c '(sleep 300 >/dev/null & echo $!) &' &"
    main = start_in(group, "sh", "-c", flight)
    fled = int(main.communicate(timeout=20)[0])
    main.wait(20)
    assert fled in group.pids()
    assert fled in tracking.open(PART).pids()
    tracking.open(PART).kill()
    wait_until(lambda: group.pids() == [])
    assert not Path(f"/proc/{fled}/exe").exists()
    group.remove()
    group.remove()
    assert tracking.names() == []


def test_kill_catches_a_process_that_keeps_forking(tracking: Cgroups) -> None:
    group = tracking.create(PART, None, None)
    # Each child outlives its parent: whoever reads the list once and signals is always too late.
    relay = "import os, time\nwhile not os.fork():\n    time.sleep(0.0005)\n"
    with start_in(group, sys.executable, "-c", relay):
        wait_until(lambda: bool(group.pids()))

        def gone() -> bool:
            group.kill()
            return group.pids() == []

        wait_until(gone)


def test_kill_reaches_groups_that_the_task_made(tracking: Cgroups) -> None:
    group = tracking.create(PART, None, None)
    inner = os.path.join(folders_named(PART)[0], "inner")
    os.mkdir(inner)
    with start_in(Group([inner]), "sleep", "300") as sleeper:
        assert group.pids() == [sleeper.pid]
        group.kill()
        assert sleeper.wait(20) == -signal.SIGKILL
    group.remove()
    assert folders_named(PART) == []


def test_a_frozen_group_dies_all_the_same(tracking: Cgroups) -> None:
    """As a supervisor leaves it that died between freezing and thawing."""
    group = tracking.create(PART, None, None)
    with start_in(group, "sleep", "300") as sleeper:
        for name, word in (("cgroup.freeze", "1"), ("freezer.state", "FROZEN")):
            path = Path(folders_named(PART)[0], name)
            if path.exists():
                path.write_text(word)
        group.kill()
        assert sleeper.wait(20) == -signal.SIGKILL


def test_a_group_in_use_stays_until_it_is_empty(tracking: Cgroups) -> None:
    group = tracking.create(PART, None, None)
    with start_in(group, "sleep", "300") as sleeper:
        group.remove()
        assert tracking.names() == [PART]
        sleeper.kill()
        sleeper.wait(20)
    group.remove()
    assert tracking.names() == []


def test_a_part_without_limits_has_one_folder(limiting: Cgroups) -> None:
    limiting.create(PART, None, None)
    assert len(folders_named(PART)) == 1
    limiting.create(PART, None, None)  # again: the same
    assert len(folders_named(PART)) == 1


def test_it_works_after_fork_in_another_process(limiting: Cgroups) -> None:
    pid = os.fork()
    if pid == 0:
        try:
            limiting.create(PART, 1, 64).join()
            os.kill(os.getpid(), signal.SIGSTOP)
        finally:
            os._exit(1)
    os.waitpid(pid, os.WUNTRACED)
    group = limiting.open(PART)
    assert group.pids() == [pid]
    group.kill()
    _, status = os.waitpid(pid, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL


def test_finding_leaves_this_process_where_it_was(limiting: Cgroups) -> None:
    before = Path("/proc/self/cgroup").read_text()
    assert "stoker-" not in before
    assert limiting.limits
    assert Path("/proc/self/cgroup").read_text() == before


def test_a_child_is_born_in_its_group_or_joins_it(tracking: Cgroups) -> None:
    """Whatever the hierarchy can do: after `fork` and `join` the child is inside."""
    group = tracking.create(PART, None, None)
    reader, writer = os.pipe()
    pid = group.fork()
    if pid == 0:
        group.join()
        os.write(writer, b"+")
        signal.pause()
        os._exit(0)
    try:
        assert os.read(reader, 1) == b"+"
        assert pid in group.pids()
        assert os.getpid() not in group.pids()
    finally:
        group.kill()
        os.waitpid(pid, 0)
        os.close(reader)
        os.close(writer)
        group.remove()


def test_on_v2_nobody_has_to_move(find: Callable[[str], Cgroups]) -> None:
    """Moving costs 10 ms on an idle machine, which every task would wait for."""
    group = find("v2").create(PART, None, None)
    pid = group.fork()
    if pid == 0:
        signal.pause()
        os._exit(0)
    try:
        assert group.pids() == [pid]
    finally:
        group.kill()
        os.waitpid(pid, 0)
        group.remove()
