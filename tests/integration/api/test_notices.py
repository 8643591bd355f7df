"""People are told what became of their tasks: over real HTTP and SMTP, by the real server."""

from __future__ import annotations

import sqlite3
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from stoker.engines.base import LaunchOrder
from stoker.engines.fake import Behaviour
from stoker.lab.book import Put
from tests.helpers.api_server import ApiServer, serving
from tests.helpers.receivers import Receiver, mail_server, receiving

TOKEN = "planted-token-4711"


def allow_loopback(server: ApiServer, **rules: Any) -> None:
    known = {"notice_hosts": "127.0.0.1, localhost"} | rules
    server.run(server.flow.book.amend([Put("rule", name, value) for name, value in known.items()]))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ApiServer]:
    with serving(tmp_path, _behave) as server:
        allow_loopback(server)
        yield server


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


def _behave(order: LaunchOrder) -> Behaviour:
    """`exit N`, or run for ever."""
    command = order.spec.command
    if command[0] == "exit":
        log = b"epoch 1\n\x1b[31mTraceback\x1b[0m\nCUDA <out> of memory\x07\n"
        return Behaviour(run_for_s=0, code=int(command[1]), output=log)
    return Behaviour(run_for_s=None)


def set_hook(server: ApiServer, receiver: Receiver, name: str = "hook", **how: Any) -> Any:
    url = f"{receiver.url}/{TOKEN}"
    reply = server.request("PUT", f"/me/channels/{name}", {"url": url}, **how)
    assert reply.status == 200, reply.body
    return reply.json


def notices(server: ApiServer, **how: Any) -> Any:
    return server.request("GET", "/me/notices", **how).json


def settled(server: ApiServer, count: int, **how: Any) -> Any:
    """The notices, when there are so many and none is on its way."""

    def look() -> Any:
        found = notices(server, **how)
        done = len(found) >= count and all(one["state"] != "waiting" for one in found)
        return found if done else None

    return server.until(look)


def test_a_failure_arrives_with_its_reason_and_the_end_of_its_output(
    server: ApiServer, receiver: Receiver
) -> None:
    view = set_hook(server, receiver)

    id = server.submit(command=["exit", "3"], name="train", gpus=1, env={"KEY": "env-secret"})
    settled(server, 1)

    assert view == {
        "name": "hook", "service": "json", "host": "127.0.0.1", "problem": None,
    }  # fmt: skip
    told = receiver.hits[0].json
    assert told["title"] == f"[Stoker] task {id} (train): failed"
    assert "exit code 3" in told["message"]
    assert "Node testbed, GPU 0" in told["message"]
    assert "Ran for" in told["message"]
    assert "Traceback\nCUDA <out> of memory" in told["message"]
    assert f"stoker logs {id}" in told["message"]
    assert "\x1b" not in told["message"]
    assert "\x07" not in told["message"]
    assert (told["type"], told["kind"], told["task"]) == ("failure", "failed", id)
    assert "env-secret" not in receiver.hits[0].body.decode()
    assert receiver.hits[0].path == f"/hook/{TOKEN}"


def test_wishes_say_what_is_told_and_a_task_may_say_otherwise(
    server: ApiServer, receiver: Receiver
) -> None:
    set_hook(server, receiver)
    assert server.request("GET", "/me/notify").json["notify"] == ["finished", "waiting", "limit"]
    server.request("PUT", "/me/notify", {"notify": ["failed"]})

    good, bad = server.submit(command=["exit", "0"]), server.submit(command=["exit", "1"])
    silent = server.submit(command=["exit", "1"], notify=["none"])
    loud = server.submit(command=["exit", "0"], notify=["started", "finished:hook"])

    found = settled(server, 3)
    told = sorted((one["task"], one["kind"]) for one in found)
    assert told == sorted([(bad, "failed"), (loud, "started"), (loud, "finished")])
    assert {good, silent}.isdisjoint(one["task"] for one in found)


def test_who_cancels_his_own_task_need_not_be_told(server: ApiServer, receiver: Receiver) -> None:
    set_hook(server, receiver)
    id = server.submit(command=["sleep"], notify=["all"])
    server.wait_for(id, "RUNNING")
    server.request("POST", f"/tasks/{id}/cancel")
    server.wait_for(id, "FINISHED")
    last = server.submit(command=["exit", "0"])

    server.until(lambda: any(one["task"] == last for one in notices(server)))

    assert [one["kind"] for one in notices(server) if one["task"] == id] == ["started"]


def test_an_array_is_told_of_once_and_its_failures_together(
    server: ApiServer, receiver: Receiver
) -> None:
    set_hook(server, receiver)
    id = server.submit(
        command=["{what}", "1"], sweep={"what": ["exit", "exit", "sleep"]}, notify=["all"]
    )

    first = server.until(
        lambda: [one for one in notices(server) if one["subject"].find("2 element(s)") > 0]
    )
    server.request("POST", f"/tasks/{id}/cancel", None)
    server.wait_for(id, "FINISHED")

    assert first[0]["kind"] == "failed"
    kinds = [one["kind"] for one in notices(server)]
    assert sorted(kinds) == ["failed", "started"]
    body = next(hit.json for hit in receiver.hits if hit.json["kind"] == "failed")["message"]
    assert f"{id}_0, {id}_1" in body


def test_the_end_of_an_array_says_how_its_elements_ended(
    server: ApiServer, receiver: Receiver
) -> None:
    set_hook(server, receiver)

    id = server.submit(command=["exit", "{code}"], sweep={"code": ["0", "1", "0"]})
    found = settled(server, 1)

    assert [(one["task"], one["kind"]) for one in found] == [(id, "failed")]
    assert "succeeded 2" in receiver.hits[0].json["message"]


def test_more_than_an_hour_may_bring_is_counted(server: ApiServer, receiver: Receiver) -> None:
    set_hook(server, receiver)
    allow_loopback(server, notices_per_hour=2)

    ids = [server.submit(command=["exit", "0"]) for _ in range(5)]
    for id in ids:
        server.wait_for(id, "FINISHED")
    settled(server, 2)
    server.on_loop(lambda: server.notices._more("ana"))
    found = settled(server, 3)

    assert len(found) == 3
    assert found[0]["subject"] == "[Stoker] and 3 more"
    refused = server.request("POST", "/me/channels/hook/test")
    assert (refused.status, refused.json["code"]) == (429, "too_many_notices")


def test_a_failed_delivery_is_tried_again_and_then_seen(
    server: ApiServer, receiver: Receiver
) -> None:
    set_hook(server, receiver)
    receiver.answer = lambda _: (503, b"not now")
    server.submit(command=["exit", "0"])

    [found] = settled(server, 1)

    assert (found["state"], found["tries"]) == ("failed", 3)
    assert "503" in found["why"]
    assert TOKEN not in str(found)
    receiver.answer = lambda _: (404, b"gone")
    server.submit(command=["exit", "0"])
    assert settled(server, 2)[0]["tries"] == 1, "asking again cannot mend that"
    receiver.close()
    server.submit(command=["exit", "0"])
    assert "Connection refused" in settled(server, 3)[0]["why"]


def test_a_receiver_that_never_answers_holds_up_nobody(
    server: ApiServer, receiver: Receiver
) -> None:
    set_hook(server, receiver, "slow")
    receiver.gate.clear()
    with receiving() as quick:
        set_hook(server, quick, "quick")
        for _ in range(6):
            server.wait_for(server.submit(command=["exit", "0"]), "FINISHED")
        server.until(lambda: len(quick.hits) == 6)

        assert receiver.arrived.acquire(timeout=5)
        slow = server.until(
            lambda: [n for n in notices(server) if n["channel"] == "slow" and n["tries"] > 1]
        )
        assert "No answer within 2 s" in slow[0]["why"]
        assert server.stop() < 5
        server.stop = lambda: 0.0  # type: ignore[method-assign]  # it has


def test_mail_goes_through_starttls_with_a_password(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    authority = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(context)
    trusted = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(trusted)
    with mail_server(context, "lab@lab.example", "mail-passwort-99") as box:
        wish = {
            "host": "localhost", "port": box.port, "sender": "stoker@lab.example",
            "user": "lab@lab.example", "password": "wrong",
        }  # fmt: skip
        assert server.request("PUT", "/mail", wish).status == 200
        assert server.request("PUT", "/me/channels/mail", {"url": "ana@uni.example"}).status == 200

        untrusted = server.request("POST", "/me/channels/mail/test").json
        monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
        refused = server.request("POST", "/me/channels/mail/test").json
        server.request("PUT", "/mail", wish | {"password": "mail-passwort-99"})
        server.submit(command=["exit", "1"], name="x\r\nBcc: eve@evil.example\r\n\r\nhi")
        found = settled(server, 3)

    assert untrusted["state"] == "failed"
    assert "certificate" in untrusted["why"]
    assert refused["state"] == "failed"
    assert "refused user or password" in refused["why"]
    assert "wrong" not in refused["why"]
    assert found[0]["state"] == "sent"
    [mail] = box.mails
    assert mail["To"] == "ana@uni.example"
    assert "stoker@lab.example" in mail["From"]
    assert mail["Bcc"] is None
    assert box.envelopes[0].rcpt_tos == ["ana@uni.example"]
    assert mail["Subject"].startswith("[Stoker] task 1 (x Bcc: eve@evil.example hi): failed")
    assert "CUDA <out> of memory" in mail.get_content()
    view = server.request("GET", "/mail")
    assert view.json["server"]["has_password"] is True
    assert b"passwort" not in view.body


def test_a_mail_server_that_refuses_is_seen(server: ApiServer) -> None:
    with mail_server() as box:
        box.refuse = "550 no such person here"
        wish = {"host": "127.0.0.1", "port": box.port, "sender": "s@lab.example", "tls": "none"}
        server.request("PUT", "/mail", wish)
        server.request("PUT", "/me/channels/mail", {"url": "nobody@lab.example"})
        told = server.request("POST", "/me/channels/mail/test").json

    assert told["state"] == "failed"


def test_a_bad_mail_server_is_refused(server: ApiServer) -> None:
    good = {"host": "mx.lab", "sender": "a@b.c"}
    for body, field, code in (
        (good | {"host": "a b"}, "host", "bad_mail_host"),
        (good | {"sender": "a@b.c\nBcc: x@y.z"}, "sender", "bad_email"),
        (good | {"user": "a\nb"}, "user", "bad_mail_user"),
        (good | {"user": "a", "tls": "none"}, "tls", "password_in_clear"),
        (good | {"port": 0}, "port", "too_small"),
        (good | {"tls": "maybe"}, "tls", "not_a_choice"),
    ):
        reply = server.request("PUT", "/mail", body)
        assert (reply.status, reply.json["field"]) == (422, field), body
        assert reply.json["code"] in (code, "invalid"), body


def test_an_address_that_reaches_too_far_is_refused(server: ApiServer) -> None:
    for url, code in (
        ("file:///etc/passwd", "service_not_allowed"),
        ("syslog://localhost", "service_not_allowed"),
        ("mailto://u:p@mx.lab", "service_not_allowed"),
        ("http://169.254.169.254/latest/meta-data", "host_forbidden"),
        ("http://[::1]:80/", "host_forbidden"),
        ("http://2130706434/", "host_forbidden"),
        ("slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/#x?template=/etc/passwd", "url_option"),
        ("discord://1234567890/abcdefghijkl?template=/etc/passwd", "url_option"),
        ("no address at all", "bad_url"),
        ("", "bad_url"),
    ):  # fmt: skip
        reply = server.request("PUT", "/me/channels/hook", {"url": url})
        assert (reply.status, reply.json["code"], reply.json["field"]) == (422, code, "url"), url


def test_a_service_that_is_no_web_address_is_refused_even_when_allowed(server: ApiServer) -> None:
    allow_loopback(server, notice_services="syslog,dbus,windows,json")

    for url in ("syslog://", "syslog://local7", "dbus://"):
        reply = server.request("PUT", "/me/channels/hook", {"url": url})
        assert reply.json["code"] in ("service_not_web", "bad_url"), url


def test_a_host_that_turns_out_to_be_here_is_not_called(
    server: ApiServer, receiver: Receiver
) -> None:
    set_hook(server, receiver)
    allow_loopback(server, notice_hosts="")

    told = server.request("POST", "/me/channels/hook/test").json

    assert told["state"] == "failed"
    assert "notice_hosts" in told["why"]
    assert receiver.hits == []


def test_a_redirect_is_not_followed(server: ApiServer, receiver: Receiver) -> None:
    with receiving() as inside:
        receiver.answer = lambda _: (307, inside.url.encode())
        set_hook(server, receiver)
        told = server.request("POST", "/me/channels/hook/test").json

        assert (told["state"], len(inside.hits)) == ("failed", 0)


def test_html_is_escaped_where_a_channel_wants_it(server: ApiServer, receiver: Receiver) -> None:
    url = f"json://127.0.0.1:{receiver.port}/?format=html"
    assert server.request("PUT", "/me/channels/hook", {"url": url}).status == 200

    server.submit(command=["exit", "1"], name="<script>alert(1)</script>")
    settled(server, 1)

    message = receiver.hits[0].json["message"]
    assert "<script>" not in message
    assert "&lt;script&gt;" in message
    assert "CUDA&nbsp;&lt;out&gt;" in message.replace(" ", "&nbsp;")


def test_a_person_is_told_in_his_language(tmp_path: Path, receiver: Receiver) -> None:
    with serving(tmp_path, _behave, is_lab=True) as lab:
        allow_loopback(lab)
        token = lab.add_person("li", language="zh", notify=("all",))
        set_hook(lab, receiver, token=token)
        reply = lab.request(
            "POST", "/tasks", {"command": ["exit", "1"], "name": "训练"}, token=token
        )
        settled(lab, 2, token=token)

    titles = [hit.json["title"] for hit in receiver.hits]
    assert f"[Stoker] 任务 {reply.json['id']}（训练）：运行错误" in titles
    assert any("已在 testbed 上开始运行" in hit.json["message"] for hit in receiver.hits)


def test_nobody_sees_or_uses_the_channels_of_others(tmp_path: Path, receiver: Receiver) -> None:
    with serving(tmp_path, _behave, is_lab=True) as lab:
        allow_loopback(lab)
        ana, bo = lab.add_person("ana"), lab.add_person("bo")
        set_hook(lab, receiver, token=ana)

        assert lab.request("GET", "/me/channels", token=bo).json == []
        assert lab.request("POST", "/me/channels/hook/test", token=bo).status == 404
        assert lab.request("DELETE", "/me/channels/hook", token=bo).status == 404
        lab.request("POST", "/tasks", {"command": ["exit", "0"], "notify": ["all:hook"]}, token=bo)
        found = settled(lab, 2, token=bo)
        assert {one["state"] for one in found} == {"failed"}
        assert "There is no channel hook" in found[0]["why"]
        assert receiver.hits == []
        for method, body in (
            ("GET", None),
            ("PUT", {"host": "a", "sender": "a@b.c"}),
            ("DELETE", None),
        ):
            assert lab.request(method, "/mail", body, token=ana).json["code"] == "admins_only"
        lab.run(lab.flow.book.amend([Put("person", "ana", lab.flow.book.people["ana"])]))


def test_who_is_locked_is_told_nothing(tmp_path: Path, receiver: Receiver) -> None:
    with serving(tmp_path, _behave, is_lab=True) as lab:
        allow_loopback(lab)
        ana = lab.add_person("ana")
        set_hook(lab, receiver, token=ana)
        id = lab.request("POST", "/tasks", {"command": ["sleep"]}, token=ana).json["id"]
        lab.until(lambda: lab.flow.live)
        lab.add_person("ana", locked=True, notify=("all",))
        lab.on_loop(lambda: lab.engine.finish(next(iter(lab.flow.live)), 0))
        lab.until(lambda: not lab.flow.live)

        assert id
        assert receiver.hits == []


def test_secrets_are_nowhere_in_clear(
    tmp_path: Path, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    with serving(tmp_path, _behave) as server:
        allow_loopback(server)
        set_hook(server, receiver)
        server.request(
            "PUT", "/mail",
            {"host": "127.0.0.1", "port": 9, "sender": "s@lab.example", "user": "u", "password": TOKEN},
        )  # fmt: skip
        server.request("PUT", "/me/channels/mail", {"url": "ana@uni.example"})
        server.submit(command=["exit", "1"])
        settled(server, 2)
        answers = [
            server.request("GET", path).body
            for path in ("/me/channels", "/me/notices", "/me/notify", "/mail")
        ]
        acts = str(server.run(server.flow.store.audited(None, 50)))

    assert receiver.hits, "it was delivered with the token"
    assert all(TOKEN.encode() not in answer for answer in answers)
    assert TOKEN not in acts
    assert "channel.set" in acts
    assert TOKEN not in caplog.text
    for path in tmp_path.rglob("*"):
        if path.is_file():
            assert TOKEN.encode() not in path.read_bytes(), path
    assert (tmp_path / "secret.key").stat().st_mode & 0o777 == 0o600


def test_without_its_key_a_channel_says_so(tmp_path: Path, receiver: Receiver) -> None:
    with serving(tmp_path, _behave) as server:
        allow_loopback(server)
        set_hook(server, receiver)
    (tmp_path / "secret.key").unlink()

    with serving(tmp_path, _behave) as server:
        [view] = server.request("GET", "/me/channels").json
        told = server.request("POST", "/me/channels/hook/test").json
        again = set_hook(server, receiver)
        works = server.request("POST", "/me/channels/hook/test").json

    assert "Set it up again" in view["problem"]
    assert told["state"] == "failed"
    assert again["problem"] is None
    assert works["state"] == "sent"


def test_a_sealed_url_opens_only_where_it_belongs(tmp_path: Path, receiver: Receiver) -> None:
    with serving(tmp_path, _behave) as server:
        allow_loopback(server)
        set_hook(server, receiver, "one")
        set_hook(server, receiver, "two")
    with sqlite3.connect(tmp_path / "stoker.db") as records:
        records.execute(
            "update entries set secret = (select secret from entries where name = 'ana/one') "
            "where name = 'ana/two'"
        )
    records.close()

    with serving(tmp_path, _behave) as server:
        assert server.request("POST", "/me/channels/one/test").json["state"] == "sent"
        assert server.request("POST", "/me/channels/two/test").json["state"] == "failed"


def test_a_channel_can_be_changed_and_removed(server: ApiServer, receiver: Receiver) -> None:
    set_hook(server, receiver)
    set_hook(server, receiver)

    assert server.request("DELETE", "/me/channels/hook").json == []
    assert server.request("DELETE", "/me/channels/hook").json["code"] == "unknown_channel"
    refused = server.request("PUT", "/me/channels/Hook!", {"url": receiver.url})
    assert refused.json["code"] == "bad_channel"
    for number in range(10):
        set_hook(server, receiver, f"h{number}")
    full = server.request("PUT", "/me/channels/one-more", {"url": receiver.url})
    assert (full.status, full.json["code"]) == (409, "too_many_channels")


def test_bad_wishes_are_refused(server: ApiServer) -> None:
    for wishes, field in (
        (["failed", "nonsense"], "notify[1]"),
        (["none", "failed"], "notify"),
        (["failed:No Such"], "notify[0]"),
        (["none:mail"], "notify[0]"),
        ([f"all:c{n}" for n in range(33)], "notify"),
    ):
        for reply in (
            server.request("PUT", "/me/notify", {"notify": wishes}),
            server.request("POST", "/tasks", {"command": ["true"], "notify": wishes}),
        ):
            assert (reply.status, reply.json["field"]) == (422, field), wishes
