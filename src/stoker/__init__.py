"""Stoker (司炉): one program that lets a research lab share its GPUs.

`stoker.Client` and what belongs to it are loaded when first asked for, so that importing the package
costs nothing. What the client answers is in `stoker.wire`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stoker.client import Client, LogPart, Refused, ServerUnreachable, StreamReset, TaskSpec

__version__ = "0.1.0"
__all__ = [
    "Client",
    "LogPart",
    "Refused",
    "ServerUnreachable",
    "StreamReset",
    "TaskSpec",
    "__version__",
]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from stoker import client  # noqa: PLC0415 - lazy on purpose

        return getattr(client, name)
    raise AttributeError(f"module 'stoker' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *__all__]
