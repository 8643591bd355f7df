"""`stoker passwd`: another password for oneself. An admin resets others': `stoker user passwd`."""

from __future__ import annotations

import json
from functools import partial

from .client import Client
from .command import command as declare
from .command import json_option
from .say import refuse, tell
from .secret import ask, choose


@declare("passwd")
@json_option
def command(as_json: bool) -> None:
    with Client() as client:
        name = client.me().person.name
        old = ask("people.ask_old", name=name)
        ended = choose(partial(client.change_password, old or None))
        if ended is None:
            refuse("people.no_password", "password")
    if as_json:
        print(json.dumps({"name": name, "revoked": ended}))
    else:
        tell("people.password_changed", count=len(ended))
