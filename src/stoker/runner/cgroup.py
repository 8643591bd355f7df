"""Control groups of the parts: tracking, killing, and the limits `cpus` and `memory`.

Our folder is `stoker-<name>` below the process's own cgroup, or, for root, below the hierarchy's
root; each part has one folder in it per hierarchy that it needs: one for tracking (v2 if it can
be had, for cgroup.kill), more only for limits on v1. Nothing is believed that was not tried:
`find` moves a child into a trial folder and sets limits there.
Invariants: no process ever stands in a v2 folder that has subfolders; a part whose promised limit
cannot be set does not start (`join` raises); every act may be repeated. A runner that was started
elsewhere (another login session) still finds the folders of its predecessor.
"""

from __future__ import annotations

import contextlib
import os
import re
from typing import Dict, List, Optional, Sequence, Set

from . import cgroupfs, libc
from .hierarchy import PROC, Hierarchy, hierarchies, read

_CONTROLLERS = {"cpus": "cpu", "memory": "memory"}
_TRIAL = "trial-"


class Cgroups:
    """What this process may do with control groups. Made once, in the forker; survives fork."""

    def __init__(self, trees: Sequence[_Tree] = (), earlier: Sequence[str] = ()) -> None:
        self._trees = list(trees)
        self._folders = [tree.folder for tree in trees] + list(earlier)

    @classmethod
    def find(cls, name: str, proc: str = PROC) -> Cgroups:
        """Tries what is writable here. Never raises: without control groups it offers nothing."""
        folder = "stoker-" + _plain(name)
        try:
            found = hierarchies(proc)
            trees = _choose(folder, found, is_root=os.geteuid() == 0)
            return cls(trees, _earlier(folder, found, {tree.folder for tree in trees}))
        except OSError:
            return cls()

    @property
    def limits(self) -> List[str]:
        """What can really be enforced here: any of `cpus`, `memory`."""
        return [limit for limit in _CONTROLLERS if self._tree_for(_CONTROLLERS[limit])]

    def create(self, part: str, cpus: Optional[int], memory_mib: Optional[int]) -> Group:
        """The group of a part, made if it is not there yet. Without any tree: an empty one.

        A limit that is not in `limits` is ignored: the server was told. One that is in it and
        cannot be set now makes `join` raise, so that nothing runs without its promised limit.
        """
        _plain(part)
        folders: List[str] = []
        if self._trees:
            with contextlib.suppress(OSError):  # session and marker still track it
                folders.append(self._trees[0].make(part))
        bound: List[str] = []
        for controller, amount in (("cpu", cpus), ("memory", memory_mib)):
            tree = self._tree_for(controller)
            if not amount or tree is None:
                continue
            try:
                bound.append(tree.make(part))
                cgroupfs.limit(bound[-1], controller, amount)
            except OSError as error:
                return Group([*folders, *bound], bound, error)
        return Group([*folders, *bound], bound)

    def open(self, part: str) -> Group:
        """The group of a part that may or may not have one."""
        return Group([os.path.join(folder, _plain(part)) for folder in self._folders])

    def names(self) -> List[str]:
        """The parts that have a folder."""
        found: Set[str] = set()
        for folder in self._folders:
            found.update(os.path.basename(path) for path in cgroupfs.subfolders(folder))
        return sorted(name for name in found if not name.startswith(_TRIAL))

    def remove(self) -> None:
        """Remove our own folders, but for those in which a part still has one."""
        for folder in self._folders:
            cgroupfs.remove(folder)

    def _tree_for(self, controller: str) -> Optional[_Tree]:
        return next((tree for tree in self._trees if controller in tree.enforces), None)


class Group:
    """The folders of one part, the tracking one first."""

    def __init__(
        self, folders: Sequence[str], bound: Sequence[str] = (), failure: Optional[OSError] = None
    ) -> None:
        self._folders = list(dict.fromkeys(folders))
        self._bound = frozenset(bound)
        self._failure = failure
        self._born_in = ""

    def fork(self) -> int:
        """os.fork(), with the child already in the tracking folder where the kernel can do that.

        Moving a process later waits for all CPUs to pass a quiet state: 10 ms on an idle machine.
        """
        if self._folders:
            with contextlib.suppress(OSError):  # v1, an old kernel, a filter: `join` does it
                folder = os.open(self._folders[0], os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
                try:
                    pid = libc.fork_into(folder)
                finally:
                    os.close(folder)
                if pid == 0:
                    self._born_in = self._folders[0]
                return pid
        return os.fork()

    def join(self) -> None:
        """Move the calling process in. Raises OSError only where a limit would be missed."""
        if self._failure is not None:
            raise self._failure
        for folder in self._folders:
            if folder == self._born_in:
                continue
            if folder in self._bound:
                cgroupfs.write(folder, "cgroup.procs", "0")
            else:
                cgroupfs.try_write(folder, "cgroup.procs", "0")

    def pids(self) -> List[int]:
        """The processes in it now, those of subfolders included; no zombies."""
        found: Set[int] = set()
        for folder in self._folders:
            found |= cgroupfs.members(folder)
        return sorted(found)

    def kill(self) -> None:
        """SIGKILL for every process in it. Does not wait: ask `pids()` until it is empty."""
        for folder in self._folders:
            cgroupfs.kill(folder)

    def oom_kills(self) -> int:
        """How many of its processes the kernel has killed for want of memory."""
        return max((cgroupfs.oom_kills(folder) for folder in self._folders), default=0)

    def remove(self) -> None:
        """Remove its folders. One that still has processes stays: kill, then call again."""
        for folder in self._folders:
            for path in cgroupfs.deepest_first(folder):
                cgroupfs.remove(path)


class _Tree:
    """Our folder in one hierarchy."""

    def __init__(self, base: str, folder: str, version: int) -> None:
        self.base = base
        self.folder = os.path.join(base, folder)
        self.version = version
        self.enforces: Set[str] = set()

    def make(self, part: str) -> str:
        """The folder of a part; ours is made again if somebody tidied it away."""
        path = os.path.join(self.folder, part)
        try:
            cgroupfs.make(path)
        except FileNotFoundError:
            self.prepare(self.enforces)
            cgroupfs.make(path)
        return path

    def prepare(self, controllers: Set[str]) -> None:
        """Our own folder, with the controllers handed down to the parts where v2 lets us."""
        cgroupfs.make(self.folder)
        if self.version == 1:
            return
        for folder in (self.base, self.folder):
            enabled = (read(os.path.join(folder, "cgroup.subtree_control")) or "").split()
            for controller in sorted(controllers.difference(enabled)):
                # Refused (EBUSY) below a folder with processes, as our own usually is.
                cgroupfs.try_write(folder, "cgroup.subtree_control", "+" + controller)

    def try_out(self, controllers: Set[str]) -> bool:
        """Whether a process can be moved in; learns which of `controllers` it enforces."""
        try:
            self.prepare(controllers)
            trial = self.make(_TRIAL + str(os.getpid()))
        except OSError:
            return False
        try:
            if not _child_can_join(trial):
                return False
            self.enforces = {name for name in controllers if cgroupfs.can_limit(trial, name)}
            return True
        finally:
            cgroupfs.remove(trial)


def _choose(folder: str, found: Sequence[Hierarchy], *, is_root: bool) -> List[_Tree]:
    """The trees to use, the tracking one first: v2, else freezer, pids, or one with a limit."""
    legacy: Dict[str, Hierarchy] = {}
    for hierarchy in found:
        for controller in hierarchy.controllers:
            legacy.setdefault(controller, hierarchy)
    wanted = set(_CONTROLLERS.values())
    # A controller that is bound to a v1 hierarchy is not to be had in v2.
    tries = [(h, wanted.difference(legacy)) for h in found if h.version == 2]
    tries += [(legacy[name], set()) for name in ("freezer", "pids") if name in legacy]
    trees: List[_Tree] = []
    for hierarchy, controllers in tries:
        tracking = _best(hierarchy, folder, controllers, is_root=is_root)
        if tracking is not None:
            trees.append(tracking)
            wanted -= tracking.enforces
            break
    for controller in sorted(wanted.intersection(legacy)):
        tree = _best(legacy[controller], folder, {controller}, is_root=is_root)
        if tree is not None and tree.enforces:
            trees.append(tree)
    return trees


def _best(
    hierarchy: Hierarchy, folder: str, controllers: Set[str], *, is_root: bool
) -> Optional[_Tree]:
    """The nearest place that enforces most: the own folder first, then above it."""
    bases = [hierarchy.own, hierarchy.mount] if is_root else hierarchy.upward()
    best: Optional[_Tree] = None
    for base in dict.fromkeys(bases):
        tree = _Tree(base, folder, hierarchy.version)
        works = tree.try_out(controllers)
        if not works or (best is not None and len(tree.enforces) <= len(best.enforces)):
            cgroupfs.remove(tree.folder)
            continue
        if best is not None:
            cgroupfs.remove(best.folder)
        best = tree
        if best.enforces == controllers:
            break
    return best


def _child_can_join(folder: str) -> bool:
    """Try it with a child: this process stays where it is."""
    reader, writer = os.pipe()
    try:
        child = os.fork()
        if child == 0:
            try:
                cgroupfs.write(folder, "cgroup.procs", "0")
                os.write(writer, b"+")
            finally:
                os._exit(0)
        os.close(writer)
        writer = -1
        joined = os.read(reader, 1) == b"+"
        with contextlib.suppress(ChildProcessError):  # the caller may ignore SIGCHLD
            os.waitpid(child, 0)
        return joined
    finally:
        os.close(reader)
        if writer >= 0:
            os.close(writer)


def _earlier(folder: str, found: Sequence[Hierarchy], ours: Set[str]) -> List[str]:
    """Folders of a predecessor that stood elsewhere; trials of dead ones are swept on the way."""
    paths: List[str] = []
    for mount in sorted({hierarchy.mount for hierarchy in found}):
        paths += [p for p in cgroupfs.deepest_first(mount) if os.path.basename(p) == folder]
    for path in paths:
        for trial in cgroupfs.subfolders(path):
            _, is_trial, pid = os.path.basename(trial).partition(_TRIAL)
            if is_trial and not os.path.exists("/proc/" + pid):
                cgroupfs.remove(trial)
    return [path for path in paths if path not in ours]


def _plain(name: str) -> str:
    """A name that cannot leave its folder."""
    if not re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,199}", name):
        raise ValueError(f"not a name for a control group: {name!r}")
    return name
