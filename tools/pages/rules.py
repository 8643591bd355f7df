"""Settings that change live, from their declaration."""

from __future__ import annotations

import json

from stoker import text
from stoker.domain.rules import LAB, Rules
from stoker.lab.settings import SETTINGS, Setting

from .markdown import table


def page() -> str:
    rows = [
        (f"`{one.name}`", _allowed(one), _default(one), one.about,
         text.about_field(f"rule.{one.name}", "–", "zh"))
        for one in SETTINGS.values()
    ]  # fmt: skip
    return "\n".join(
        [
            "# Settings that change live",
            "",
            "What the lab decides while the server runs: `stoker settings set NAME VALUE`, or "
            "`PUT /settings/NAME`. It takes effect at once, is kept over restarts and backups, and is in "
            "the [audit trail](audit.md). What is changed here wins over "
            "[config.toml](settings.md), which wins over the defaults below; `stoker settings unset NAME` goes "
            "back. How: [admin.md](../howto/admin.md).",
            "",
            *table(("setting", "allowed", "default", "meaning", "中文"), rows),
            "",
            "On the command line times may be typed as `15m`, `2h`, `3d`, and switches as `yes` and `no`. "
            "Everybody sees the settings; admins change them.",
            "",
        ]
    )


def _allowed(setting: Setting) -> str:
    if setting.choices:
        return ", ".join(f"`{choice}`" for choice in setting.choices)
    if setting.kind == "yes_no":
        return "`true`, `false`"
    if setting.kind == "whole":
        least = "any" if setting.least is None else str(setting.least)
        return f"{least} to {setting.most}" if setting.most is not None else f"from {least} on"
    return "text"


def _default(setting: Setting) -> str:
    alone, lab = getattr(Rules(), setting.name), getattr(LAB, setting.name)
    shown = f"`{json.dumps(alone)}`"
    return shown if alone == lab else f"{shown}; in a lab `{json.dumps(lab)}`"
