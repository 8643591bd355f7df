"""Sends notices by apprise: in few threads, each delivery with a deadline, a failure with its reason.

Threads are daemons: a receiver that never answers keeps neither the server from ending nor, beyond
the deadline, a place of the few. What went wrong is told as a code; what a service said is cut, and
nothing of the address or the password is left in it.
"""

from __future__ import annotations

import asyncio
import re
import smtplib
import ssl
import threading
from collections.abc import Callable, Collection
from functools import partial

import msgspec

from .base import Examined, Mail, Message, Undelivered, Web
from .urls import calls_the_web, examine, host_of

AT_ONCE = 4
DEADLINE_S = 20.0
MOST_BODY = 16_000
MOST_SAID = 200
ANSWERS = {
    "feishu": ("code", "msg"),
    "lark": ("code", "msg"),
    "dingtalk": ("errcode", "errmsg"),
    "wecombot": ("errcode", "errmsg"),
    "schan": ("code", "message"),
    "pushdeer": ("code", "error"),
    "pushplus": ("code", "msg"),
}
"""Services that answer 200 to everything: where they say how it really went, and why."""
GOOD = (0, 200)


class AppriseSender:
    def __init__(self, deadline_s: float = DEADLINE_S) -> None:
        self._deadline_s = deadline_s
        self._places = asyncio.Semaphore(AT_ONCE)
        self._cuts: set[Callable[[], None]] = set()

    def examine(self, url: str, services: Collection[str], local: Collection[str]) -> Examined:
        return examine(url, services, local)

    async def send(self, to: Mail | Web, message: Message) -> None:
        await self._places.acquire()
        work = _Work(to, message, asyncio.get_running_loop(), self._places.release)
        self._cuts.add(work.cut)
        try:
            await asyncio.wait_for(asyncio.shield(work.done), self._deadline_s)
        except TimeoutError:
            raise Undelivered("notice_too_slow", seconds=self._deadline_s) from None
        finally:
            self._cuts.discard(work.cut)
            work.cut()

    def close(self) -> None:
        for cut in list(self._cuts):
            cut()


class _Work:
    """One delivery in a thread of its own. `leave` is called on the loop when the thread is done."""

    def __init__(
        self,
        to: Mail | Web,
        message: Message,
        loop: asyncio.AbstractEventLoop,
        leave: Callable[[], None],
    ) -> None:
        self.done: asyncio.Future[None] = loop.create_future()
        self.done.add_done_callback(_seen)
        self._to, self._message, self._loop, self._leave = to, message, loop, leave
        self._cut: Callable[[], None] | None = None
        threading.Thread(target=self._run, name="notice", daemon=True).start()

    def cut(self) -> None:
        """End its connections, if it has any yet."""
        if self._cut is not None:
            self._cut()

    def _run(self) -> None:
        failure: Exception | None = None
        try:
            self._deliver()
        except Exception as error:
            failure = error if isinstance(error, Undelivered) else Undelivered("notice_failed")
        try:
            self._loop.call_soon_threadsafe(partial(self._end, failure))
        except RuntimeError:
            return  # the server has ended meanwhile

    def _end(self, failure: Exception | None) -> None:
        self._leave()
        if self.done.done():
            return
        if failure is None:
            self.done.set_result(None)
        else:
            self.done.set_exception(failure)

    def _deliver(self) -> None:
        from .guard import Delivery, guarded  # noqa: PLC0415 - heavy, and nobody may ever need it

        to = self._to
        delivery = Delivery(to.local if isinstance(to, Web) else ())
        self._cut = delivery.cut
        with guarded(delivery):
            if isinstance(to, Mail):
                _mail(to, self._message)
            else:
                _web(to, self._message, delivery)


def _mail(to: Mail, message: Message) -> None:
    from . import services  # noqa: PLC0415

    services.caught.take()
    plugin = services.mail(to.server, to.password, to.to)
    if services.notify(
        plugin, title=message.subject, body=message.body(MOST_BODY), mood=message.mood
    ):
        return
    error = services.caught.take()
    host, said = to.server.host, _said(error, to.password)
    match error:
        case smtplib.SMTPAuthenticationError():
            raise Undelivered("mail_login_refused", passing=False, host=host, said=said)
        case smtplib.SMTPRecipientsRefused() | smtplib.SMTPSenderRefused():
            raise Undelivered("mail_refused", passing=False, host=host, said=said)
        case smtplib.SMTPResponseException():
            raise Undelivered("mail_refused", host=host, said=said)
        case ssl.SSLCertVerificationError():
            raise Undelivered("notice_certificate", passing=False, host=host, said=said)
        case smtplib.SMTPNotSupportedError():
            raise Undelivered("mail_not_supported", passing=False, host=host, said=said)
        case _:
            raise Undelivered("notice_unreachable", host=host, said=said)


def _web(to: Web, message: Message, delivery: object) -> None:
    from . import services  # noqa: PLC0415
    from .guard import Delivery  # noqa: PLC0415

    assert isinstance(delivery, Delivery)
    plugin = services.instantiate(to.url)
    if plugin is None or not calls_the_web(plugin):
        raise Undelivered("notice_url", passing=False)
    room = min(MOST_BODY, plugin.body_maxlen) - len(message.subject.encode()) - 16
    if hasattr(plugin, "payload_extras"):
        plugin.payload_extras = dict(message.values) | plugin.payload_extras
    sent = services.notify(
        plugin, title=message.subject, body=message.body(room), mood=message.mood
    )
    host = host_of(plugin)
    if delivery.error is not None:
        raise _unreached(delivery, host, to.url)
    if delivery.status >= 300 or not sent:
        passing = delivery.status >= 500 or delivery.status in (0, 408, 429)
        raise Undelivered("notice_http", passing=passing, status=delivery.status)
    _check_answer(plugin.schema, delivery.answer, to.url)


def _unreached(delivery: object, host: str, secret: str) -> Undelivered:
    import requests  # noqa: PLC0415

    from .guard import Delivery  # noqa: PLC0415

    assert isinstance(delivery, Delivery)
    error = delivery.error
    if delivery.forbidden:
        return Undelivered("host_forbidden", passing=False, host=delivery.forbidden)
    if delivery.is_cut or isinstance(error, requests.Timeout):
        return Undelivered("notice_too_slow", seconds=DEADLINE_S)
    if isinstance(error, requests.exceptions.SSLError):
        return Undelivered(
            "notice_certificate", passing=False, host=host, said=_said(error, secret)
        )
    return Undelivered("notice_unreachable", host=host, said=_said(_root(error), secret))


def _check_answer(service: str, answer: bytes, secret: str) -> None:
    code_at, why_at = ANSWERS.get(service, ("", ""))
    if not code_at:
        return
    try:
        said = msgspec.json.decode(answer, type=dict[str, object])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return
    code = said.get(code_at, 0)
    if code not in GOOD:
        why = _clean(str(said.get(why_at, "")), secret)
        raise Undelivered("notice_refused", passing=False, answer=_clean(str(code), ""), said=why)


def _root(error: BaseException | None) -> BaseException | None:
    """The bottom of what `requests` has wrapped several times."""
    while error is not None and (below := error.__cause__ or error.__context__) is not None:
        error = below
    return error


def _said(error: BaseException | None, secret: str) -> str:
    """In the words of the other side or of the system."""
    match error:
        case smtplib.SMTPRecipientsRefused():
            code, words = next(iter(error.recipients.values()), (0, b""))
            text = f"{code} {_text(words)}"
        case smtplib.SMTPResponseException():
            text = f"{error.smtp_code} {_text(error.smtp_error)}"
        case ssl.SSLCertVerificationError():
            text = error.verify_message
        case OSError() if error.strerror:
            text = error.strerror
        case None:
            text = "-"
        case _:
            text = str(error) or type(error).__name__
    return _clean(text, secret)


def _text(words: bytes | str) -> str:
    return words.decode(errors="replace") if isinstance(words, bytes) else words


def _clean(text: str, secret: str) -> str:
    """Harmless, short, and without any part of the secret that is more than a word."""
    parts = [part for part in re.split(r"[^A-Za-z0-9_-]+", secret) if len(part) >= 6]
    tokens = [part for part in parts if len(part) >= 16 or not (part.isalpha() and part.islower())]
    for token in (*tokens, secret):
        text = text.replace(token, "…") if token else text
    return "".join(c if c.isprintable() else " " for c in text)[:MOST_SAID]


def _seen(future: asyncio.Future[None]) -> None:
    """Nobody may be there any more to take its failure."""
    if not future.cancelled():
        future.exception()
