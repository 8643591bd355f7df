"""One module per figure; `FIGURES` names them in the order of the table."""

from __future__ import annotations

from bench.figure import Figure

from . import drain, list, ls, memory, planning, restart, scale, start, submits

FIGURES: dict[str, Figure] = {
    module.FIGURE.name: module.FIGURE
    for module in (drain, start, submits, list, ls, memory, planning, scale, restart)
}
