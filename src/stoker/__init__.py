"""Stoker (司炉): one program that lets a research lab share its GPUs.

`stoker.Client` and `stoker.TaskSpec` are loaded when first asked for, so that importing the package
costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stoker.client import Client
    from stoker.domain.task import TaskSpec

__version__ = "0.1.0"
__all__ = ["Client", "TaskSpec", "__version__"]


def __getattr__(name: str) -> Any:
    if name == "Client":
        from stoker.client import Client  # noqa: PLC0415 - lazy on purpose

        return Client
    if name == "TaskSpec":
        from stoker.domain.task import TaskSpec  # noqa: PLC0415

        return TaskSpec
    raise AttributeError(name)
