"""What really happened, kept outside the server: who ran when, on which cards, and how it ended.

Only simulated nodes write here. Nothing of the product reads it; the checker does.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from stoker.runner.protocol import Exit


class Process(Struct):
    """The processes of one attempt on one node, as one thing."""

    task: str
    attempt: str
    node: str
    cards: tuple[str, ...]
    memory_mib: int
    began: float
    env: dict[str, str]
    over: float | None = None
    exit: Exit | None = None
    """As its supervisor wrote it down; None: nobody could."""
    stuck: str = ""
    """Why KILL does not help, while that is so."""


class Truth:
    def __init__(self) -> None:
        self.processes: dict[str, Process] = {}
        """By attempt, the last one that began."""
        self.starts: dict[str, int] = {}
        """How often an attempt began."""
        self.alive: dict[str, Process] = {}
        self.unknowable: dict[str, str] = {}
        """Attempts whose end nobody can know, and why: their supervisor, node or spool is gone."""
        self.on_begin: Callable[[Process], None] = lambda _: None
        self.on_over: Callable[[Process], None] = lambda _: None
        self.on_limit: Callable[[Process, float], None] = lambda _, __: None
        """A supervisor lets a limit of so many seconds count."""

    def begin(self, process: Process) -> None:
        self.starts[process.attempt] = self.starts.get(process.attempt, 0) + 1
        self.processes[process.attempt] = process
        self.alive[process.attempt] = process
        self.on_begin(process)

    def end(self, attempt: str, at: float) -> None:
        """Nothing is left of it."""
        process = self.alive.pop(attempt, None)
        if process is not None:
            process.over = at
            self.on_over(process)

    def on_card(self, node: str, uuid: str) -> list[Process]:
        return [p for p in self.alive.values() if p.node == node and uuid in p.cards]
