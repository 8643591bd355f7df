"""The table that people read."""

from __future__ import annotations

from .figure import Bar, Result

HEAD = ("figure", "ours", "yardstick", "ratio", "lowest-highest", "bar (moonshot)", "reached")


def table(results: list[Result], failed: dict[str, str]) -> str:
    """One row per line of a figure, then what could not be measured and why."""
    rows = [HEAD, *(_row(result) for result in results)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD))]
    lines = [_spaced(row, widths) for row in rows]
    lines.insert(1, "  ".join("-" * width for width in widths))
    lines.append("")
    lines += [
        f"{r.line.name}: against {r.line.yardstick}"
        for r in results
        if r.line.yardstick and r.line.bar is not None
    ]
    lines += [f"{name}: NOT MEASURED: {why}" for name, why in failed.items()]
    return "\n".join(lines)


def _row(result: Result) -> tuple[str, ...]:
    line, bar = result.line, result.line.bar
    values = result.ratios if result.is_ratio else sorted(r.ours for r in result.readings)
    return (
        line.name,
        f"{number(result.ours)} {line.unit}",
        "" if result.yardstick is None else f"{number(result.yardstick)} {line.unit}",
        number(result.judged) if result.is_ratio else "",
        f"{number(values[0])}-{number(values[-1])}",
        "" if bar is None else _bar(bar, line.unit),
        "" if bar is None else _reached(bar, result.judged),
    )


def number(value: float) -> str:
    """Three digits that matter: more would claim more than a shared machine can say."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.{3 if abs(value) < 1 else 2 if abs(value) < 10 else 1}f}"


def _bar(bar: Bar, unit: str) -> str:
    sign = ">=" if bar.sense == "at least" else "<="
    moonshot = "" if bar.moonshot is None else f" ({bar.moonshot:,g})"
    return f"{sign} {bar.limit:,g}{moonshot}{'' if bar.of == 'ratio' else ' ' + unit}"


def _reached(bar: Bar, value: float) -> str:
    if bar.holds(value, bar.moonshot):
        return "moonshot"
    return "yes" if bar.holds(value, bar.limit) else "NO"


def _spaced(row: tuple[str, ...], widths: list[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
