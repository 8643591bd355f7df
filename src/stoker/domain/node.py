"""Nodes, cards, and what an attempt holds of them."""

from __future__ import annotations

from msgspec import Struct


class Gpu(Struct, frozen=True):
    """One card. Identity is the UUID; the index (PCI order) is for people."""

    index: int
    uuid: str
    model: str
    memory_mib: int
    simulated: bool = False
    slots: int = 1
    """So many exclusive tasks may use it side by side."""


class Node(Struct, frozen=True, kw_only=True):
    """A machine with GPUs, as it last introduced itself."""

    name: str
    cpus: int
    memory_mib: int
    gpus: tuple[Gpu, ...] = ()
    limits: tuple[str, ...] = ()
    """What is enforced there: any of `cpus`, `memory`."""
    gpu_error: str = ""
    """Why no card is listed, in the driver's words."""


class HeldGpu(Struct, frozen=True):
    """A card in an allocation."""

    index: int
    uuid: str
    slot: int = 0
    """Which of the card's places, for an exclusive one."""


class Allocation(Struct, frozen=True, kw_only=True):
    """What an attempt holds, from place to finish."""

    node: str
    gpus: tuple[HeldGpu, ...] = ()
    cpus: int = 0
    memory_mib: int = 0
    gpu_memory_mib: int = 0
    """Set aside on each card, in mode shared."""


class Incarnation(Struct, frozen=True):
    """Which life of a node: a reboot or a new spool makes another one."""

    boot_id: str
    spool_id: str
