"""`stoker version`: of this program, and of the server if one answers."""

from __future__ import annotations

import json

from stoker import __version__
from stoker.client import Refused, ServerUnreachable

from .client import Client
from .command import command as declare
from .command import json_option
from .say import tell


@declare("version")
@json_option
def command(as_json: bool) -> None:
    try:
        with Client(timeout_s=3) as client:
            server = client.version()
    except (ServerUnreachable, Refused):
        server = None
    if as_json:
        found = None if server is None else {"version": server.version, "home": server.home}
        print(json.dumps({"version": __version__, "server": found}, ensure_ascii=False))
        return
    print(f"stoker {__version__}")
    if server is None:
        tell("version.no_server")
    elif server.home:
        tell("version.server", version=server.version, home=server.home)
    else:
        tell("version.of_server", version=server.version)
