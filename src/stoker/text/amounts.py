"""Times and sizes as people say them: `3 min`, `1 d 4 h`, `8 GiB`. Total for any number."""

from __future__ import annotations

_UNITS = {
    "en": (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)),
    "zh": (("天", 86400), ("小时", 3600), ("分钟", 60), ("秒", 1)),
}


def duration(seconds: float, language: str) -> str:
    """The two largest units that matter; under ten seconds one decimal."""
    units = _UNITS.get(language, _UNITS["en"])
    if 0.05 <= seconds < 9.95 and seconds != int(seconds):
        return f"{seconds:.1f} {units[-1][0]}"
    left = max(int(seconds), 0)
    for place, (unit, size) in enumerate(units):
        if left >= size:
            count, rest = divmod(left, size)
            smaller, its_size = units[min(place + 1, len(units) - 1)]
            # beside minutes seconds say nothing that anybody needs
            part = rest // its_size if size > 60 else 0
            return f"{count} {unit} {part} {smaller}" if part else f"{count} {unit}"
    return f"0 {units[-1][0]}"


def memory(mib: float) -> str:
    """MiB as the unit that reads best."""
    if mib < 1024:
        return f"{mib:.0f} MiB"
    if mib < 1024 * 1024:
        return f"{_short(mib / 1024)} GiB"
    return f"{_short(mib / 1024 / 1024)} TiB"


def _short(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")
