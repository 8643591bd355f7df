"""Settings, from their declaration and the options of `up`."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import click

from stoker import text
from stoker.client.find import REMOTE
from stoker.config import DEBUG_QUEUE, DEFAULT_LISTEN, Settings

from .cli import command_of
from .markdown import table


def page() -> str:
    flags = {p.name: p.opts[-1] for p in command_of("up").params if isinstance(p, click.Option)}
    rows = [
        (f"`{s.name}`",
         "–" if s.metadata["example"] else "`STOKER_" + s.name.upper() + "`",
         f"`{flags[s.name]}`" if s.name in flags else "–",
         _default(s),
         s.metadata["about"],
         text.about_field(f"setting.{s.name}", "–", "zh"))
        for s in dataclasses.fields(Settings)
    ]  # fmt: skip
    return "\n".join(
        [
            "# Settings",
            "",
            "Read once, when the server starts: from `config.toml` in the state folder, then the "
            "environment, then options of `stoker up`; the last one wins. Unknown keys are errors. "
            "`stoker config show` prints every value with where it came from. Those that can also be changed "
            "while the server runs are in [rules.md](rules.md); what is set here is their default.",
            "",
            *table(("setting", "environment", "option", "default", "meaning", "中文"), rows),
            "",
            "`home` is chosen by the environment only, since the file is in it. Without "
            "`STOKER_HOME` it is `$XDG_STATE_HOME/stoker` or `~/.local/state/stoker`; when that is on "
            "a network file system, `/var/tmp/stoker-UID`; on Windows, where only clients run, "
            "`%LOCALAPPDATA%\\stoker`.",
            "",
            "```toml",
            "# config.toml",
            f'listen = "{DEFAULT_LISTEN}"',
            "simulate_gpus = 4",
            "",
            *DEBUG_QUEUE.splitlines(),
            "```",
            "",
            "Fields of a queue are those of `QueueWish` in [api.md](api.md#queuewish); times are in seconds. How to use "
            "them: [queues.md](../howto/queues.md).",
            "",
            "For commands that talk to a server:",
            "",
            *table(
                ("environment", "means"),
                (
                    ("`STOKER_HOME`", "the state folder in which address and token are found"),
                    ("`STOKER_URL`", "another server, for example `http://127.0.0.1:7433`"),
                    ("`STOKER_TOKEN`", "the token for it"),
                    (
                        "`STOKER_CA`",
                        "a file with the authority that its certificate is checked against",
                    ),
                    ("`LC_ALL`, `LC_MESSAGES`, `LANG`", "Chinese when it begins with `zh`"),
                ),
            ),
            "",
            f"`stoker login` writes `{REMOTE}` in the state folder, which only its owner may read; it can be "
            "written by hand too:",
            "",
            "```toml",
            f"# {REMOTE}",
            'url = "https://gpu.lab:7433"',
            'token = "stk_..."',
            'ca = "/etc/ssl/lab-ca.pem"  # only where the system does not know the authority',
            "```",
            "",
            "What is given in a program or in the environment wins over it; it wins over a server that "
            "serves the folder itself. From a laptop: [remote.md](../howto/remote.md).",
            "",
        ]
    )


def _default(setting: dataclasses.Field[Any]) -> str:
    if setting.metadata["example"]:
        return "none"
    if setting.default is dataclasses.MISSING:
        return "see below"
    return f"`{json.dumps(setting.default)}`"
