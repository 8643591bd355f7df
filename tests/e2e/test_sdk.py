"""The SDK as a person uses it, on a real server. `make check` reads the types here: mypy, strict."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from datetime import datetime
from importlib.resources import files
from itertools import islice
from typing import Any, assert_type

import pytest

import stoker as sdk
from stoker import Client, Refused, ServerUnreachable, StreamReset, TaskSpec, wire

from .conftest import Stoker


@pytest.fixture
def client(stoker: Stoker) -> Iterator[Client]:
    url, token = _address(stoker)
    with Client(url=url, token=token, language="en") as client:
        yield client


def _address(stoker: Stoker) -> tuple[str, str]:
    with Client(home=stoker.home) as client:
        return client.url, (stoker.home / "token").read_text().strip()


def line(stoker: Stoker, text: str, **more: object) -> TaskSpec:
    return TaskSpec(command=text, workdir=str(stoker.work), **more)  # type: ignore[arg-type]


def test_the_package_says_that_it_is_typed() -> None:
    assert (files("stoker") / "py.typed").is_file()
    assert {"Client", "TaskSpec", "Refused", "ServerUnreachable"} <= set(dir(sdk))
    with pytest.raises(AttributeError, match="no attribute 'Clinet'"):
        sdk.Clinet  # noqa: B018


def test_submit_wait_and_read(client: Client, stoker: Stoker) -> None:
    created = client.submit(TaskSpec(command=("echo", "a  b"), workdir=str(stoker.work), gpus=1))
    assert_type(created, wire.Created)
    task = client.wait(created.id)
    assert_type(task, wire.TaskView)
    assert (task.state, task.outcome, task.exit_code) == ("FINISHED", "succeeded", 0)
    assert_type(task.spec, TaskSpec)
    assert task.spec.command == ("echo", "a  b")
    assert_type(task.submitted_at, datetime)
    assert_type(task.started_at, datetime | None)
    text = client.output(task.id)
    assert_type(text, str)
    assert "\na  b\n" in text
    assert b"".join(client.follow_log(task.id)).decode() == text
    assert b"".join(client.read_log(task.id)).decode() == text
    part = client.log(task.id, offset=-5)
    assert_type(part, sdk.LogPart)
    assert part.text == text[-5:]
    assert part.ended
    detail = client.task(task.id)
    assert_type(detail, wire.TaskDetail)
    assert detail.events[0].event == "Submitted"


def test_waiting_for_many_and_for_arrays(client: Client, stoker: Stoker) -> None:
    ids = client.submit_many([line(stoker, f"exit {code}") for code in (0, 3)])
    assert_type(ids, tuple[str, ...])
    ended = client.wait(ids, timeout_s=60)
    assert_type(ended, dict[str, wire.TaskView])
    assert [(id, task.exit_code) for id, task in ended.items()] == [(ids[0], 0), (ids[1], 3)]
    assert client.wait(id for id in reversed(ids)).keys() == ended.keys()
    assert client.wait([]) == {}
    array = client.submit(line(stoker, 'test "$STOKER_ARRAY_INDEX" != 2', array="0-3%2"))
    whole = client.wait(array.id, timeout_s=60)
    assert whole.array is not None
    assert (whole.array.size, whole.array.succeeded, whole.array.failed) == (4, 3, 1)
    assert client.wait(f"{array.id}_2").outcome == "failed"
    failed = [task.id for task in client.tasks(array=array.id, outcome="failed")]
    assert failed == [f"{array.id}_2"]


def test_lists_are_iterators_with_filters(client: Client, stoker: Stoker) -> None:
    made = client.submit_many(
        [line(stoker, "true", name=f"listed {n}", hold=True) for n in range(5)]
    )
    found = client.tasks(name="listed", page=2)
    assert_type(next(found), wire.TaskView)
    assert [task.id for task in found] == [*reversed(made)][1:]
    assert [task.id for task in client.tasks(name="listed", sort="id")] == [*made]
    assert {task.state for task in client.tasks(state="waiting")} == {"HELD"}
    assert list(client.tasks(state=["RUNNING", "finished"], name="listed")) == []
    assert client.delete(made[0]) == (made[0],)
    for id in made[1:]:
        assert client.cancel(id).outcome == "cancelled"


def test_events_go_on_where_they_were_left(client: Client, stoker: Stoker) -> None:
    news = client.events(timeout_s=60)
    first = next(news)
    assert isinstance(first, StreamReset)
    task = client.submit(line(stoker, "true"))
    seen = []
    for event in news:
        assert_type(event, wire.EventView | StreamReset)
        if isinstance(event, wire.EventView) and event.task == task.id:
            assert_type(event.values, dict[str, Any])
            seen.append(event)
            if event.event == "Ended":
                break
    assert [event.event for event in seen] == ["Submitted", "Placed", "Started", "Ended"]
    again = islice(client.events(after=seen[0].seq, timeout_s=60), 3)
    assert list(again) == seen[1:]
    with pytest.raises(TimeoutError):
        for _ in client.events(timeout_s=0.2):
            pass


def test_a_refusal_says_what_and_where(client: Client, stoker: Stoker) -> None:
    with pytest.raises(Refused) as refused:
        client.submit(line(stoker, "true", gpus=9))
    error = refused.value
    assert_type(error.hint, str | None)
    assert (error.code, error.field, error.status) == ("too_many_gpus", "gpus", 422)
    assert str(error).startswith("gpus: 9 GPUs can never be given")
    assert str(error).endswith("`stoker nodes` shows what there is.")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    with pytest.raises(Refused, match="There is no task 9999"):
        client.wait("9999")


def test_no_server_says_what_to_do(tmp_path_factory: pytest.TempPathFactory) -> None:
    home = tmp_path_factory.mktemp("empty")
    with pytest.raises(ServerUnreachable, match="Start one: stoker up --detach") as found:
        Client(home=home).nodes()
    assert (found.value.why, found.value.where) == ("no_server", str(home))
    with pytest.raises(ServerUnreachable, match="STOKER_URL: `lab1` is not an address"):
        Client("lab1", "t").nodes()


def test_what_is_shown_at_a_prompt(client: Client, stoker: Stoker) -> None:
    spec = line(stoker, "true", name="short", env={"KEY": "s3cret"}, hold=True)
    assert repr(spec) == (
        f"TaskSpec(command='true', name='short', workdir={str(stoker.work)!r}, "
        "env={'KEY': '…'}, hold=True)"
    )
    id = client.submit(spec).id
    assert repr(client.task(id).task) == f"TaskView(id={id!r}, state='HELD', name='short')"
    assert repr(client.cancel(id)).startswith(
        f"TaskView(id={id!r}, state='FINISHED', name='short', outcome='cancelled', message="
    )
    url, token = _address(stoker)
    assert repr(client) == f"<stoker.Client {url}>"
    assert token not in repr(client)
    assert "not looked for" in repr(Client())
