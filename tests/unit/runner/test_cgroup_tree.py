"""Control groups on a folder tree that stands for the file system: v2 above all.

The kernel puts files into a new cgroup folder; here they are put there beforehand. A folder in
the place of a file stands for one that cannot be written.
"""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from stoker.runner.cgroup import Cgroups
from stoker.runner.hierarchy import hierarchies, quota_cpus, room_mib

PART = "a1.0"


class System:
    """A /proc/self with mounts below one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.proc = folder / "proc"
        self.proc.mkdir()
        self._mounts: list[str] = []
        self._own: list[str] = []

    def mount(self, name: str, controllers: str = "", own: str = "/", root: str = "/") -> Path:
        """`controllers` = "" for v2. Returns the mount point."""
        point = self.folder / name
        point.mkdir(parents=True)
        kind = f"cgroup cgroup rw,{controllers}" if controllers else "cgroup2 cgroup2 rw"
        escaped = str(point).replace(" ", "\\040")
        self._mounts.append(f"30 23 0:28 {root} {escaped} rw,relatime shared:9 - {kind}")
        self._own.append(f"{len(self._own)}:{controllers}:{own}")
        (self.proc / "mountinfo").write_text("\n".join(self._mounts) + "\n")
        (self.proc / "cgroup").write_text("\n".join(self._own) + "\n")
        return point

    def find(self, name: str = "x") -> Cgroups:
        return Cgroups.find(name, str(self.proc))


@pytest.fixture
def system(tmp_path: Path) -> System:
    return System(tmp_path)


def put(folder: Path, **files: str | None) -> Path:
    """A cgroup folder with its files; None = one that cannot be written."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in {"cgroup_procs": "", **files}.items():
        path = folder / name.replace("_", ".", 1)
        if text is None:
            path.mkdir()
        else:
            path.write_text(text)
    return folder


def ours(base: Path, **files: str | None) -> Path:
    """Our folder as it will be found: for the trial and for one part."""
    folder = put(base / "stoker-x", cgroup_subtree_control="")
    put(folder / f"trial-{os.getpid()}", **files)
    put(folder / PART, **files)
    return folder


def limits(**changed: str | None) -> dict[str, str | None]:
    return {"cpu_max": "", "memory_max": "", "memory_swap.max": "max", **changed}


def test_v2_with_the_controllers_handed_down(system: System) -> None:
    mount = put(system.mount("v2"), cgroup_subtree_control="cpu pids")
    folder = ours(mount, **limits())
    cgroups = system.find()
    assert cgroups.limits == ["cpus", "memory"]
    # cpu was handed down already; both are missing in our own folder, memory is written last
    assert (mount / "cgroup.subtree_control").read_text() == "+memory"
    assert (folder / "cgroup.subtree_control").read_text() == "+memory"
    group = cgroups.create(PART, 2, 512)
    part = folder / PART
    assert (part / "cpu.max").read_text() == "200000 100000"
    assert (part / "memory.max").read_text() == str(512 * 1024 * 1024)
    assert (part / "memory.swap.max").read_text() == "0"
    group.join()
    assert (part / "cgroup.procs").read_text() == "0"


def test_no_process_ever_stands_in_a_v2_folder_with_subfolders(system: System) -> None:
    mount = put(system.mount("v2"), cgroup_subtree_control="cpu memory")
    folder = ours(mount, **limits())
    system.find().create(PART, 1, 64).join()
    assert (mount / "cgroup.procs").read_text() == ""
    assert (folder / "cgroup.procs").read_text() == ""


def test_below_a_folder_with_processes_v2_tracks_without_limits(system: System) -> None:
    mount = system.mount("v2", own="/app.scope")
    own = put(mount / "app.scope", cgroup_subtree_control=None)  # EBUSY there
    folder = ours(own)
    cgroups = system.find()
    assert cgroups.limits == []
    group = cgroups.create(PART, 2, 512)
    group.join()
    assert (folder / PART / "cgroup.procs").read_text() == "0"


def test_limits_are_looked_for_above_the_own_folder(system: System) -> None:
    mount = put(system.mount("v2", own="/app.scope"), cgroup_subtree_control="cpu memory")
    own = put(mount / "app.scope", cgroup_subtree_control=None)
    ours(own)
    above = ours(mount, **limits())
    cgroups = system.find()
    assert cgroups.limits == ["cpus", "memory"]
    cgroups.create(PART, None, 64).join()
    assert (above / PART / "cgroup.procs").read_text() == "0"
    assert (own / "stoker-x" / PART / "cgroup.procs").read_text() == ""


def test_one_limit_of_two_is_said_and_kept(system: System) -> None:
    mount = put(system.mount("v2"), cgroup_subtree_control="memory")
    folder = ours(mount, memory_max="")
    cgroups = system.find()
    assert cgroups.limits == ["memory"]
    cgroups.create(PART, 4, 64).join()
    assert (folder / PART / "memory.max").read_text() == str(64 * 1024 * 1024)


def test_a_promised_limit_that_cannot_be_set_stops_the_start(system: System) -> None:
    mount = put(system.mount("v2"), cgroup_subtree_control="cpu memory")
    folder = ours(mount, **limits())
    cgroups = system.find()
    (folder / PART / "memory.max").unlink()
    (folder / PART / "memory.max").mkdir()
    group = cgroups.create(PART, None, 64)
    with pytest.raises(OSError, match="Is a directory"):
        group.join()
    assert (folder / PART / "cgroup.procs").read_text() == ""


def test_our_folder_is_made_again_when_somebody_tidied_it_away(system: System) -> None:
    mount = put(system.mount("v2"), cgroup_subtree_control="cpu memory")
    ours(mount, **limits())
    cgroups = system.find()
    subprocess.run(["rm", "-r", mount / "stoker-x"], check=True, timeout=10)
    cgroups.create(PART, None, None).join()
    assert (mount / "stoker-x" / PART).is_dir()
    with pytest.raises(FileNotFoundError):  # no kernel here to put a memory.max there
        cgroups.create(PART, None, 64).join()


def test_an_unwritable_tree_gives_empty_groups(system: System) -> None:
    system.mount("v2")
    (system.folder / "v2").rmdir()
    (system.folder / "v2").write_text("")  # nothing can be made below it
    cgroups = system.find()
    group = cgroups.create(PART, 1, 64)
    group.join()
    group.kill()
    group.remove()
    assert (cgroups.limits, cgroups.names(), group.pids(), group.oom_kills()) == ([], [], [], 0)


def test_a_system_without_control_groups(tmp_path: Path) -> None:
    cgroups = Cgroups.find("x", str(tmp_path / "nothing"))
    cgroups.create(PART, 1, 64).join()
    cgroups.remove()
    assert cgroups.open(PART).pids() == []


def test_kill_is_one_write_where_the_kernel_can(system: System) -> None:
    folder = ours(system.mount("v2"), cgroup_kill="")
    with subprocess.Popen(["sleep", "60"]) as sleeper:
        (folder / PART / "cgroup.procs").write_text(f"{sleeper.pid}\n")
        group = system.find().open(PART)
        assert group.pids() == [sleeper.pid]
        group.kill()
        assert (folder / PART / "cgroup.kill").read_text() == "1"
        assert sleeper.poll() is None  # left to the kernel
        sleeper.kill()


@pytest.mark.parametrize(
    ("controllers", "name", "thawed"),
    [("", "cgroup_freeze", "0"), ("freezer", "freezer_state", "THAWED"), ("pids", "pids_max", "0")],
)
def test_kill_without_it_goes_by_member_and_ends_thawed(
    system: System, controllers: str, name: str, thawed: str
) -> None:
    folder = ours(system.mount("tree", controllers), **{name: ""})
    below = put(folder / PART / "made-by-the-task")
    with subprocess.Popen(["sleep", "60"]) as one, subprocess.Popen(["sleep", "60"]) as two:
        (folder / PART / "cgroup.procs").write_text(f"{one.pid}\n0\n")
        (below / "cgroup.procs").write_text(f"{two.pid}\n")
        group = system.find().open(PART)
        assert group.pids() == sorted([one.pid, two.pid])
        group.kill()
        assert one.wait(10) == two.wait(10) == -signal.SIGKILL
    assert (folder / PART / name.replace("_", ".", 1)).read_text() == thawed
    group.kill()  # nobody left: no harm


def test_a_gone_group_is_nobody(system: System) -> None:
    ours(system.mount("v2"))
    group = system.find().open("zz.9")
    group.kill()
    group.remove()
    group.remove()
    assert (group.pids(), group.oom_kills()) == ([], 0)


@pytest.mark.parametrize(
    ("controllers", "name", "text"),
    [
        ("", "memory_events", "low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 0\n"),
        ("memory", "memory_oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"),
    ],
)
def test_oom_kills_are_counted(system: System, controllers: str, name: str, text: str) -> None:
    limit = {"memory_max": ""} if not controllers else {"memory_limit_in_bytes": ""}
    folder = ours(system.mount("tree", controllers), **limit)
    (folder / PART / name.replace("_", ".", 1)).write_text(text)
    assert system.find().open(PART).oom_kills() == 2


def test_v1_limits_stand_in_their_own_hierarchies(system: System) -> None:
    unified = ours(system.mount("unified"))
    memory = ours(
        system.mount("memory", "memory"),
        memory_limit_in_bytes="",
    )
    swap = memory / PART / "memory.memsw.limit_in_bytes"
    swap.write_text("")
    cpu = ours(
        system.mount("cpu,cpuacct", "cpu,cpuacct"), cpu_cfs_period_us="", cpu_cfs_quota_us="-1"
    )
    cgroups = system.find()
    assert cgroups.limits == ["cpus", "memory"]
    cgroups.create(PART, 3, 100).join()
    assert (cpu / PART / "cpu.cfs_quota_us").read_text() == "300000"
    assert (cpu / PART / "cpu.cfs_period_us").read_text() == "100000"
    assert (memory / PART / "memory.limit_in_bytes").read_text() == str(100 << 20)
    assert swap.read_text() == str(100 << 20)
    for tree in (unified, memory, cpu):
        assert (tree / PART / "cgroup.procs").read_text() == "0"


def test_without_limits_one_folder_is_enough(system: System) -> None:
    unified = ours(system.mount("unified"))
    memory = ours(system.mount("memory", "memory"), memory_limit_in_bytes="")
    cgroups = system.find()
    cgroups.create("b2.0", None, None)
    assert (unified / "b2.0").is_dir()
    assert not (memory / "b2.0").exists()


def test_a_tree_that_no_process_can_be_moved_into_is_not_used(system: System) -> None:
    folder = put(system.mount("v2") / "stoker-x", cgroup_subtree_control="")
    put(folder / f"trial-{os.getpid()}", cgroup_procs=None)
    freezer = ours(system.mount("freezer", "freezer"))
    system.find().create(PART, None, None).join()
    assert (freezer / PART / "cgroup.procs").read_text() == "0"
    assert not (folder / PART).exists()


def test_a_limit_tree_tracks_where_nothing_else_can(system: System) -> None:
    memory = ours(system.mount("memory", "memory"), memory_limit_in_bytes="")
    cgroups = system.find()
    assert cgroups.limits == ["memory"]
    cgroups.create(PART, None, None).join()
    assert (memory / PART / "cgroup.procs").read_text() == "0"


def test_names_are_those_of_parts(system: System) -> None:
    folder = ours(system.mount("v2"))
    (folder / "b2.1").mkdir()
    assert system.find().names() == [PART, "b2.1"]


def test_the_folders_of_a_predecessor_in_another_session_are_found(system: System) -> None:
    mount = system.mount("v2", own="/user.slice/session-2.scope")
    ours(mount / "user.slice" / "session-2.scope")
    old = ours(mount / "user.slice" / "session-1.scope")
    put(old / "old.0")
    with subprocess.Popen(["sleep", "60"]) as sleeper:
        (old / "old.0" / "cgroup.procs").write_text(str(sleeper.pid))
        cgroups = system.find()
        assert "old.0" in cgroups.names()
        group = cgroups.open("old.0")
        assert group.pids() == [sleeper.pid]
        group.kill()
        assert sleeper.wait(10) == -signal.SIGKILL


def test_trials_of_dead_runners_are_swept(system: System) -> None:
    folder = ours(system.mount("v2"))
    stale = folder / f"trial-{2**22 + 1}"
    stale.mkdir()
    system.find()
    assert not stale.exists()


@pytest.mark.parametrize("name", ["", "..", "a/b", "../x", ".hidden", "a\n", "x" * 300])
def test_names_cannot_leave_their_folder(system: System, name: str) -> None:
    ours(system.mount("v2"))
    cgroups = system.find()
    with pytest.raises(ValueError, match="control group"):
        cgroups.create(name, None, None)
    with pytest.raises(ValueError, match="control group"):
        cgroups.open(name)
    with pytest.raises(ValueError, match="control group"):
        system.find(name)


def test_hierarchies_of_a_container_and_of_a_path_with_spaces(system: System) -> None:
    point = system.mount("my mount", "memory", own="/docker/abc/inner", root="/docker/abc")
    (point / "inner").mkdir()
    elsewhere = system.mount("cpu", "cpu", own="/outside/of/it", root="/docker/abc")
    found = {hierarchy.mount: hierarchy for hierarchy in hierarchies(str(system.proc))}
    assert found[str(point)].own == str(point / "inner")
    assert found[str(point)].upward() == [str(point / "inner"), str(point)]
    assert found[str(elsewhere)].own == str(elsewhere)


def test_the_tightest_quota_and_memory_limit_above_us_hold(system: System) -> None:
    assert (quota_cpus(str(system.proc)), room_mib(str(system.proc))) == (None, None)
    mount = system.mount("v2", own="/a/b")
    put(mount / "a" / "b", cpu_max="max 100000", memory_max=str(8 << 30), memory_current="0")
    put(mount / "a", cpu_max="250000 100000", memory_max=str(4 << 30), memory_current=str(3 << 30))
    assert quota_cpus(str(system.proc)) == 2.5
    assert room_mib(str(system.proc)) == (4096, 1024)


def test_v1_quota_and_memory_limit(system: System) -> None:
    put(system.mount("cpu", "cpu"), cpu_cfs_quota_us="150000\n", cpu_cfs_period_us="50000\n")
    put(
        system.mount("memory", "memory"),
        memory_limit_in_bytes="9223372036854771712\n",
        memory_usage_in_bytes="0\n",
    )
    assert quota_cpus(str(system.proc)) == 3.0
    assert room_mib(str(system.proc)) is None
