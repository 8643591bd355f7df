"""The chat services as apprise speaks to them: what they are sent, and how their refusals are seen."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest
import requests

from stoker.notices.base import Message, Undelivered, Web
from stoker.notices.send import AppriseSender
from stoker.notices.urls import examine
from tests.helpers.receivers import Receiver, receiving

FEISHU = "https://open.feishu.cn/open-apis/bot/v2/hook/abc-DEF_123456"
DINGTALK = "https://oapi.dingtalk.com/robot/send?access_token=abcdef123456&secret=SEC654321"
WECOM = "https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=abcdef-123456"
ALL = ("feishu", "dingtalk", "wecombot", "json", "jsons", "slack", "tgram", "mqtt", "ntfy")
HERE = ("127.0.0.1",)
LONG = Message(
    subject="[Stoker] 任务 12：失败",
    lines=("任务 12 失败。",),
    heading="输出：",
    tail=tuple(f"第 {n} 行 " + "错" * 60 for n in range(20)),
    closing="stoker logs 12",
    mood="failure",
)


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    """In the place of all three services."""
    with receiving() as receiver:
        for module, kind, path in (
            ("feishu", "NotifyFeishu", "/feishu/{token}"),
            ("dingtalk", "NotifyDingTalk", "/dingtalk?access_token={token}"),
            ("wecombot", "NotifyWeComBot", "/wecom?key={key}"),
        ):
            plugin = getattr(import_module(f"apprise.plugins.{module}"), kind)
            url = f"http://127.0.0.1:{receiver.port}{path}"
            monkeypatch.setattr(plugin, "notify_url", url)
        yield receiver


async def send(url: str, message: Message = LONG, deadline_s: float = 5.0) -> None:
    found = examine(url, ALL, HERE)
    await AppriseSender(deadline_s).send(Web(url=found.url, local=HERE), message)


async def test_feishu(receiver: Receiver) -> None:
    receiver.answer = lambda _: (200, b'{"code":0,"msg":"success"}')

    await send(FEISHU)

    [hit] = receiver.hits
    assert hit.path == "/feishu/abc-DEF_123456"
    assert hit.json["msg_type"] == "text"
    assert hit.json["content"]["text"].startswith("[Stoker] 任务 12：失败")
    assert "第 19 行" in hit.json["content"]["text"]


async def test_dingtalk_with_a_signature(receiver: Receiver) -> None:
    receiver.answer = lambda _: (200, b'{"errcode":0,"errmsg":"ok"}')

    await send(DINGTALK)

    [hit] = receiver.hits
    assert hit.path.startswith("/dingtalk?access_token=abcdef123456&timestamp=")
    assert "&sign=" in hit.path
    assert "SEC654321" not in hit.path
    assert hit.json["msgtype"] == "text"
    assert hit.json["text"]["content"].startswith("[Stoker]")


async def test_wecom_gets_what_it_can_take(receiver: Receiver) -> None:
    receiver.answer = lambda _: (200, b'{"errcode":0,"errmsg":"ok"}')

    await send(WECOM)

    [hit] = receiver.hits
    text = hit.json["text"]["content"]
    assert hit.path == "/wecom?key=abcdef-123456"
    assert len(text.encode()) <= 2048
    assert "第 19 行" in text
    assert "第 0 行" not in text
    assert text.endswith("stoker logs 12")


@pytest.mark.parametrize(
    ("url", "answer", "said"),
    [
        (FEISHU, {"code": 19024, "msg": "Key Words Not Found"}, "Key Words Not Found"),
        (DINGTALK, {"errcode": 310000, "errmsg": "sign not match, abcdef123456"}, "not match, …"),
        (WECOM, {"errcode": 93000, "errmsg": "invalid webhook\x1b[2Jurl"}, "invalid webhook"),
    ],
)
async def test_a_refusal_that_says_200_is_one(
    receiver: Receiver, url: str, answer: dict[str, object], said: str
) -> None:
    receiver.answer = lambda _: (200, json.dumps(answer).encode())

    with pytest.raises(Undelivered) as caught:
        await send(url)

    assert caught.value.code == "notice_refused"
    assert said in str(caught.value.values["said"])
    assert "\x1b" not in str(caught.value.values)
    assert not caught.value.is_passing


async def test_a_byte_now_and_then_is_cut_off_in_time() -> None:
    """Each step of it is quick: only a deadline for the whole ends it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        ended = threading.Event()

        def drip() -> None:
            connection, _ = server.accept()
            with connection:
                try:
                    connection.sendall(b"HTTP/1.1 200 OK\r\n")
                    while not ended.wait(0.05):
                        connection.sendall(b"X")
                except OSError:
                    ended.set()

        thread = threading.Thread(target=drip)
        thread.start()
        begun = time.monotonic()
        with pytest.raises(Undelivered) as caught:
            await send(f"http://127.0.0.1:{server.getsockname()[1]}/", deadline_s=0.5)

        assert caught.value.code == "notice_too_slow"
        assert ended.wait(10), "the connection is closed, not left to itself"
        assert time.monotonic() - begun < 10
        thread.join()


async def test_a_name_that_points_here_is_not_called(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Public when it is set up, loopback when something is sent."""
    found = examine("http://203.0.113.7/x", ALL, ())
    look_up = socket.getaddrinfo

    def rebound(host: str, port: Any, *args: Any, **how: Any) -> object:
        if host == "203.0.113.7":
            host = "127.0.0.1"
        return look_up(host, port, *args, **how)

    monkeypatch.setattr(socket, "getaddrinfo", rebound)
    url = found.url.replace("203.0.113.7", f"203.0.113.7:{receiver.port}")

    with pytest.raises(Undelivered) as caught:
        await AppriseSender().send(Web(url=url, local=()), LONG)

    assert caught.value.code == "host_forbidden"
    assert receiver.hits == []


async def test_a_proxy_does_not_lead_around_the_guard(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{receiver.port}")
    monkeypatch.delenv("no_proxy", raising=False)

    with pytest.raises(Undelivered) as caught:
        await AppriseSender().send(Web(url="json://169.254.169.254/latest", local=()), LONG)
    assert caught.value.code == "host_forbidden"
    assert receiver.hits == []
    await AppriseSender().send(Web(url="json://192.0.2.9/hook", local=()), LONG)
    assert receiver.hits[0].path == "http://192.0.2.9/hook"


def test_requests_of_others_are_as_before(receiver: Receiver) -> None:
    examine(FEISHU, ALL, ())  # apprise is loaded, and the guard with it

    assert requests.post(receiver.url, data=b"x", timeout=5).status_code == 200
