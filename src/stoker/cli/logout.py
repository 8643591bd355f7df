"""`stoker logout`: the token of this account ends, on the server and here."""

from __future__ import annotations

import os
from http import HTTPStatus

from stoker.client import Refused
from stoker.client.find import written
from stoker.client.saved import save
from stoker.config import find_home

from .client import Client
from .command import command as declare
from .command import json_option
from .say import refuse, tell, warn


@declare("logout")
@json_option
def command(as_json: bool) -> None:
    home = str(find_home(os.environ))
    kept = written(home)
    if not os.environ.get("STOKER_TOKEN") and (kept is None or kept.token is None):
        refuse("people.not_logged_in")
    with Client() as client:
        url = client.url
        try:
            client.logout()
        except Refused as error:
            if error.status != HTTPStatus.UNAUTHORIZED:  # else it is good for nothing already
                raise
    if kept is not None and kept.url == url:
        save(home, kept._replace(token=None))
    if os.environ.get("STOKER_TOKEN"):
        warn("people.variable_stays")
    if as_json:
        import json

        print(json.dumps({"url": url}))
    else:
        tell("people.logged_out", url=url)
