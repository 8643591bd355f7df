"""`stoker login`: a token for this account on this machine, kept in `client.toml`.

A password is asked for or read from standard input, never taken from the command line, where
everybody on the machine could read it. Over plain HTTP to another machine a warning comes first.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import socket
import sys
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click

from stoker.client import Refused, ServerUnreachable
from stoker.client.find import Server, find_server, written
from stoker.client.saved import save
from stoker.config import DEFAULT_LISTEN, find_home

from .client import Client
from .command import command as declare
from .command import json_option, option
from .say import refuse, tell, warn, words
from .screen import clean
from .secret import ask, choose

if TYPE_CHECKING:
    from stoker.wire_access import LoggedIn

PROMPT = "\0"
"""`--code` without a code."""


@declare("login")
@click.argument("name", metavar="[NAME]", default="")
@option("--url", metavar="URL", default="", help="people.opt_url")
@option(
    "--code",
    is_flag=False,
    flag_value=PROMPT,
    default=None,
    metavar="[CODE]",
    help="people.opt_code",
)
@json_option
def command(name: str, url: str, code: str | None, as_json: bool) -> None:
    if name and code is not None:
        refuse("people.code_has_name", "code")
    home = str(find_home(os.environ))
    known = _known(home)
    server = _server(url, home, known)
    if _is_exposed(server.url):
        warn("people.exposed", url=server.url)
    with Client(server.url, token="-", ca=server.ca or None) as client:  # noqa: S106 - login sends none
        label = socket.gethostname()[:100]
        password = None
        if code is not None:
            typed = ask("people.ask_code") if code == PROMPT else code
            logged_in = client.login(code=typed.strip(), label=label)
        else:
            name = name or _ask_name()
            password = ask("people.ask_password", name=name, url=server.url)
            logged_in = client.login(name, password, label=label)
        path = save(home, server._replace(token=logged_in.token))
        must_change = logged_in.must_change and not _choose(client, password)
        if known is not None and known.url == server.url and known.token:
            _end(known)
        if as_json:
            _print_json(logged_in, server.url, path, must_change)
        else:
            _welcome(logged_in, server.url, path, must_change)


def _choose(client: Client, old: str | None) -> bool:
    """A password of one's own, at once; whether one was chosen."""
    if sys.stdin.isatty():
        warn("people.choose_first" if old is None else "people.choose")
    return choose(partial(client.change_password, old)) is not None


def _print_json(logged_in: LoggedIn, url: str, path: str, must_change: bool) -> None:
    facts = {
        "url": url, "name": logged_in.person.name, "path": path,
        "expires_at": logged_in.expires_at and logged_in.expires_at.isoformat(),
        "must_change": must_change, "warning": logged_in.warning,
    }  # fmt: skip
    print(json.dumps(facts, ensure_ascii=False))


def _welcome(logged_in: LoggedIn, url: str, path: str, must_change: bool) -> None:
    expires = logged_in.expires_at and f"{logged_in.expires_at.astimezone():%Y-%m-%d}"
    tell("people.logged_in", name=logged_in.person.name, url=url)
    tell("people.kept", path=path, day=expires or "-")
    if must_change:
        warn("people.must_change")
    for variable in ("STOKER_URL", "STOKER_TOKEN"):
        if os.environ.get(variable):
            warn("people.variable", variable=variable, path=path)


def _known(home: str) -> Server | None:
    """The server of last time. A file that cannot be used is replaced."""
    try:
        return written(home)
    except ServerUnreachable:
        return None


def _server(url: str, home: str, known: Server | None) -> Server:
    """Where to log in: what was typed, STOKER_URL, the one of last time, the one on this machine."""
    ca = os.environ.get("STOKER_CA", "")
    named = (url or os.environ.get("STOKER_URL") or "").rstrip("/")
    if not named:
        try:
            named = known.url if known else find_server(None, "-", home).url
        except ServerUnreachable:
            named = f"http://{DEFAULT_LISTEN}"
    elif url:
        parts = urlsplit(named)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            refuse("people.bad_url", "url", url=url)
    if known is not None and known.url == named:
        ca = ca or known.ca
    return Server(named, None, os.path.abspath(ca) if ca else "")


def _end(before: Server) -> None:
    """Nobody has the token of last time any more: it need not be good for another 90 days."""
    with (
        Client(before.url, before.token, ca=before.ca or None) as client,
        contextlib.suppress(Refused, ServerUnreachable),
    ):
        client.says_announcement = client.says_pause = False  # said already
        client.logout()


def _is_exposed(url: str) -> bool:
    """Whether a password would go over a network in the clear."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    try:
        is_here = ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_here = host == "localhost"
    return parts.scheme == "http" and not is_here


def _ask_name() -> str:
    from getpass import getuser

    if not sys.stdin.isatty():
        return getuser()
    typed: str = click.prompt(clean(words("people.ask_name")), default=getuser(), err=True)
    return typed
