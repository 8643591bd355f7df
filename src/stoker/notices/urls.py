"""What a person pastes becomes a URL that apprise takes, or is refused.

The addresses that Feishu, DingTalk, WeCom, Slack and others show for their robots can be pasted as
they are; any other http(s) address is a plain webhook. Only services that the lab allows, and none
that do anything but call a web address: apprise also knows some that run on this machine's desktop
or write its log. Options in a URL are limited to harmless ones: some services read files of this
machine by theirs (`template=/etc/...`) and send them.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection
from typing import Any, NoReturn
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from stoker.domain.errors import InvalidSpec

from .base import Examined

PLAIN = {"http": "json", "https": "jsons"}
OPTIONS = frozenset(
    {
        "verify", "format", "to", "token", "secret", "key", "access_token", "priority", "topic", "thread",
        "silent", "footer", "image", "method", "level", "sound", "group",
    }
)  # fmt: skip
"""Names that no service takes for a file or an address."""
EXTRA = ("-", "+", ":")
"""Before names of parameters, headers and fields that a plain webhook is to get."""
FREE = ("json", "jsons", "form", "forms", "xml", "xmls")
MOST_URL = 2000

_FEISHU = re.compile(r"https://open\.feishu\.cn/open-apis/bot/v2/hook/([A-Za-z0-9_-]+)/?", re.I)
_DINGTALK = re.compile(r"https://oapi\.dingtalk\.com/robot/send/?\?(.+)", re.I)


def examine(url: str, services: Collection[str], local: Collection[str]) -> Examined:
    """Refuse what cannot be used. InvalidSpec names the field; its values hold no secret."""
    from .guard import Delivery, Forbidden  # noqa: PLC0415 - heavy, as the next
    from .services import instantiate, parsed  # noqa: PLC0415

    given = url.strip()
    if not given or len(given) > MOST_URL or not given.isprintable() or " " in given:
        _refuse("bad_url")
    canonical = translated(given)
    seen = parsed(canonical)
    service = canonical.partition("://")[0].lower() if seen is None else str(seen["schema"]).lower()
    if service not in services:
        _refuse("service_not_allowed", service=_shown(service), allowed=", ".join(sorted(services)))
    if seen is None:
        _refuse("bad_url")
    _check_options(service, seen)
    plugin = instantiate(canonical)
    if plugin is None:
        _refuse("bad_url")
    if not calls_the_web(plugin):
        _refuse("service_not_web", service=service)
    host = host_of(plugin)
    try:
        Delivery(local).check(host)
    except Forbidden:
        _refuse("host_forbidden", host=_shown(host))
    return Examined(canonical, service, _shown(host))


def translated(url: str) -> str:
    """As apprise takes it: what the services show for people, and plain addresses, are its too."""
    feishu, dingtalk = _FEISHU.fullmatch(url), _DINGTALK.fullmatch(url)
    if feishu is not None:
        return f"feishu://{feishu[1]}"
    if dingtalk is not None:
        known = dict(parse_qsl(dingtalk[1]))
        secret = known.get("secret", "")
        signed = f"{quote(secret, safe='')}@" if secret else ""
        return f"dingtalk://{signed}{quote(known.get('access_token', ''), safe='')}/"
    if url.lower().startswith(tuple(f"{scheme}://" for scheme in PLAIN)):
        return url if _is_known(url) else _webhook(url)
    return url


def calls_the_web(plugin: Any) -> bool:
    """Whether all it does goes through `requests`, where it can be held to time and place."""
    module = sys.modules[type(plugin).__module__]
    return hasattr(module, "requests") and type(plugin).__module__.startswith("apprise.plugins.")


def host_of(plugin: Any) -> str:
    """Where it goes. In the URLs of many services a token may stand in the place of a host: then the
    place that the service itself has."""
    if all("{host}" in template for template in plugin.templates):
        return str(plugin.host).strip("[]")
    return urlsplit(str(plugin.service_url or "")).hostname or type(plugin).__name__


def _is_known(url: str) -> bool:
    """The robots of services that apprise knows by their own addresses."""
    from .services import parsed  # noqa: PLC0415 - heavy

    return parsed(url) is not None


def _webhook(url: str) -> str:
    try:
        parts = urlsplit(url)
        pairs = parse_qsl(parts.query, keep_blank_values=True)
    except ValueError:
        _refuse("bad_url")
    query = urlencode([(f"-{name}", value) for name, value in pairs])
    return urlunsplit((PLAIN[parts.scheme.lower()], parts.netloc, parts.path or "/", query, ""))


def _check_options(service: str, seen: dict[str, Any]) -> None:
    """Those that apprise has seen: nobody else need agree with it where a query begins."""
    for name in seen.get("qsd", {}):
        if name.lower() not in OPTIONS and not (service in FREE and name.startswith(EXTRA)):
            _refuse("url_option", name=_shown(name))
    if service not in FREE and any(seen.get(f"qsd{mark}") for mark in EXTRA):
        _refuse("url_option", name="".join(EXTRA))


def _shown(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.:+-]", "?", text)[:100]


def _refuse(code: str, **values: object) -> NoReturn:
    raise InvalidSpec(code, field="url", **values)
