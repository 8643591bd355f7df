"""Another time limit, and where a person stands: over HTTP, in a lab of several people."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stoker.domain.queue import Queue, Team
from stoker.engines.fake import Behaviour
from stoker.lab.book import Put
from tests.helpers.api_server import ApiServer, serving

HOUR = 3600


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[ApiServer]:
    """One node; tasks run until told."""
    with serving(tmp_path, lambda _: Behaviour(run_for_s=None), is_lab=True) as server:
        yield server


def submit(lab: ApiServer, token: str, **fields: Any) -> str:
    spec = {"command": ["true"], "workdir": "/tmp", **fields}
    answer = lab.request("POST", "/tasks", spec, token=token)
    assert answer.status == 201, answer.json
    return str(answer.json["id"])


def extend(lab: ApiServer, token: str, id: str, **wish: Any) -> tuple[int, Any]:
    answer = lab.request("POST", f"/tasks/{id}/extend", wish, token=token)
    return answer.status, answer.json


def share(lab: ApiServer, token: str, **query: str) -> Any:
    asked = "&".join(f"{name}={value}" for name, value in query.items())
    answer = lab.request("GET", f"/share?{asked}", token=token)
    return answer.json


def test_the_owner_extends_within_the_queue_and_an_admin_beyond(lab: ApiServer) -> None:
    ana, root = lab.add_person("ana"), lab.add_person("root", role="admin")
    queue = Queue(name="short", longest_s=2 * HOUR)
    lab.run(lab.flow.book.amend([Put("queue", "short", queue)]))
    task = submit(lab, ana, queue="short", time_limit_s=HOUR)

    status, view = extend(lab, ana, task, add_s=HOUR)
    assert (status, view["spec"]["time_limit_s"]) == (200, 2 * HOUR)
    status, refused = extend(lab, ana, task, add_s=1)
    assert (status, refused["code"], refused["field"]) == (
        422, "limit_beyond_queue", "time_limit_s",
    )  # fmt: skip
    assert "admin" in refused["hint"]
    status, view = extend(lab, root, task, no_limit=True)
    assert (status, view["spec"]["time_limit_s"]) == (200, None)
    acts = lab.run(lab.flow.store.audited(None, 10))
    assert [(a.act.who, a.act.act) for a in acts] == [("root", "task.extend")]


def test_nobody_else_extends_a_task(lab: ApiServer) -> None:
    ana, bo = lab.add_person("ana"), lab.add_person("bo")
    reader = lab.add_person("cy", scopes=["tasks:read"])
    task = submit(lab, ana, time_limit_s=HOUR)

    assert extend(lab, bo, task, add_s=5)[1]["code"] == "not_yours"
    assert extend(lab, reader, task, add_s=5)[1]["code"] == "missing_scope"


@pytest.mark.parametrize(
    ("wish", "field"),
    [
        ({}, "time_limit_s"),
        ({"time_limit_s": 5, "add_s": 5}, "time_limit_s"),
        ({"add_s": 5, "no_limit": True}, "time_limit_s"),
        ({"add_s": 0}, "add_s"),
        ({"add_s": -5}, "add_s"),
        ({"time_limit_s": "5"}, "time_limit_s"),
        ({"time_limit_s": 1e99}, "time_limit_s"),
        ({"hours": 5}, "hours"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(
    lab: ApiServer, wish: dict[str, Any], field: str
) -> None:
    ana = lab.add_person("ana")
    task = submit(lab, ana, time_limit_s=HOUR)

    status, refused = extend(lab, ana, task, **wish)

    assert (status, refused["field"]) == (422, field), refused


def test_where_a_person_stands_is_said_in_words(lab: ApiServer) -> None:
    ana, bo = lab.add_person("ana", most_cards=6), lab.add_person("bo", team="vision")
    lab.run(lab.flow.book.amend([Put("team", "vision", Team(name="vision", most_cards=5))]))
    for _ in range(3):
        submit(lab, ana, gpus=1)
    submit(lab, bo, gpus=1)
    submit(lab, ana, gpus=4)
    submit(lab, bo, gpus=4)

    hers, his = share(lab, ana), share(lab, bo)

    assert hers["sentences"] == [
        "Policy balance: whoever holds the fewest GPUs for their weight is next.",
        "You hold 3 GPUs at weight 1.",
        "You are number 2 of 2 who wait.",
        "Next is bo, who holds 1 at weight 1.",
        "You may hold 6 GPUs at most; you hold 3.",
    ]
    assert (hers["place"], hers["of"], hers["quota"]) == (2, 2, 6)
    assert his["sentences"][-2:] == [
        "You are next.",
        "Team vision may hold 5 GPUs together and holds 1.",
    ]
    assert [(row["person"], row["cards"], row["place"]) for row in hers["table"]] == [
        ("bo", 1, 1),
        ("ana", 3, 2),
    ]
    said = lab.request("GET", "/share", token=ana, headers={"Accept-Language": "zh"}).json[
        "sentences"
    ]
    assert said[1] == "你占用 3 块 GPU，权重 1。"


def test_admins_ask_about_anybody_and_others_only_about_themselves(lab: ApiServer) -> None:
    ana, root = lab.add_person("ana"), lab.add_person("root", role="admin")

    assert share(lab, ana, person="root")["code"] == "admins_only"
    assert share(lab, ana, person="ana")["person"] == "ana"
    found = share(lab, root, person="ana")
    assert found["sentences"][1] == "ana holds 0 GPUs at weight 1."
    refused = share(lab, root, person="nobody")
    assert (refused["code"], refused["field"]) == ("no_such_person", "person")


def test_where_people_do_not_see_each_other_nobody_is_named(lab: ApiServer) -> None:
    ana, bo = lab.add_person("ana"), lab.add_person("bo")
    root = lab.add_person("root", role="admin")
    submit(lab, ana, gpus=3)
    submit(lab, bo, gpus=1)
    submit(lab, ana, gpus=4)
    submit(lab, bo, gpus=4)
    lab.run(lab.flow.book.amend([Put("rule", "others_see", "nothing")]))

    hers = share(lab, ana)

    assert [row["person"] for row in hers["table"]] == ["ana"]
    assert hers["place"] == 2
    assert "bo" not in " ".join(hers["sentences"])
    assert len(share(lab, root)["table"]) == 3
