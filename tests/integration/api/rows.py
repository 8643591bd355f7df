"""How every route is called by somebody who may: its parameters and a body that is valid.

Whoever adds a route adds a row; who may call it is in the route's own declaration.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

PASSWORD = "correct horse"
SPEC = {"command": ["true"], "hold": True}
SEEN = {"If-Match": "1"}
NEW = {"If-Match": "0"}
PERSON: dict[str, Any] = {
    "role": "user", "full_name": "", "student_id": "", "supervisor": "", "email": "",
    "expires": None, "login": "own", "account": "", "accounts": {}, "team": "", "weight": 2,
    "most_cards": None,
}  # fmt: skip


class Row(NamedTuple):
    """How a route is called by somebody who may."""

    body: Any = None
    params: Mapping[str, str] = {}
    """Parameters of the path but the task: of something that is there."""
    headers: Mapping[str, str] = {}
    says_no: frozenset[str] = frozenset()
    """Codes with which its handler refuses, with 401 or 403, somebody who was let in."""
    missing: str = ""
    """What is said with 404 about a name that is not there; "": every name is."""
    answers: int | None = None
    """What an admin gets who was let in, if that is not the status of the route."""


ROWS: dict[tuple[str, str], Row] = {
    ("POST", "/tasks"): Row(SPEC),
    ("POST", "/tasks/batch"): Row({"tasks": [SPEC]}),
    ("POST", "/tasks/preview"): Row(SPEC),
    ("GET", "/tasks"): Row(),
    ("GET", "/tasks/export"): Row(),
    ("GET", "/tasks/{id}"): Row(),
    ("GET", "/tasks/{id}/why"): Row(),
    ("GET", "/tasks/{id}/successors"): Row(),
    ("GET", "/tasks/{id}/log"): Row(),
    ("GET", "/tasks/{id}/log/stream"): Row(),
    ("POST", "/tasks/{id}/cancel"): Row(),
    ("POST", "/tasks/{id}/hold"): Row(),
    ("POST", "/tasks/{id}/release"): Row(),
    ("PUT", "/tasks/{id}/spec"): Row(SPEC, headers=SEEN),
    ("POST", "/tasks/{id}/move"): Row({"to": "first"}),
    ("POST", "/tasks/{id}/extend"): Row({"time_limit_s": 60}),
    ("POST", "/tasks/{id}/requeue"): Row(),
    ("POST", "/tasks/{id}/resubmit"): Row(),
    ("DELETE", "/tasks/{id}"): Row(),
    ("GET", "/events"): Row(),
    ("GET", "/events/stream"): Row(),
    ("GET", "/nodes"): Row(),
    ("POST", "/nodes/{node}/drain"): Row({"why": "x"}, {"node": "testbed"}, missing="unknown_node"),
    ("POST", "/nodes/{node}/resume"): Row(params={"node": "testbed"}, missing="unknown_node"),
    ("PUT", "/nodes/{node}/labels"): Row(
        {"labels": ["big"]}, {"node": "testbed"}, missing="unknown_node"
    ),
    # ---- oneself
    ("POST", "/login"): Row({"name": "porter", "password": PASSWORD}),
    ("POST", "/logout"): Row(),
    ("GET", "/me"): Row(),
    ("PUT", "/me"): Row({"language": "zh"}),
    ("PUT", "/me/password"): Row({"old": PASSWORD, "new": "another " + PASSWORD}),
    ("POST", "/me/confirm"): Row({"password": PASSWORD}),
    ("GET", "/tokens"): Row(),
    ("POST", "/tokens"): Row(
        {"label": "x", "scopes": ["account"]}, says_no=frozenset({"password_must_change"})
    ),
    # whose it is has a test of its own
    ("DELETE", "/tokens/{token}"): Row(params={"token": "none"}, answers=404),
    ("GET", "/me/channels"): Row(),
    ("PUT", "/me/channels/{channel}"): Row({"url": "http://127.0.0.1:9/x"}, {"channel": "hook"}),
    ("DELETE", "/me/channels/{channel}"): Row(
        params={"channel": "kept"}, missing="unknown_channel"
    ),
    ("POST", "/me/channels/{channel}/test"): Row(
        params={"channel": "unset"}, missing="unknown_channel", answers=404
    ),
    ("GET", "/me/notices"): Row(),
    ("GET", "/me/notify"): Row(),
    ("PUT", "/me/notify"): Row({"notify": ["failed"]}),
    # ---- people
    ("GET", "/people"): Row(),
    ("POST", "/people"): Row({"name": "newcomer"}),
    ("POST", "/people/batch"): Row({"people": [{"name": "another"}]}),
    ("GET", "/people/{person}"): Row(params={"person": "somebody"}, missing="unknown_person"),
    ("PUT", "/people/{person}"): Row(PERSON, {"person": "edited"}, SEEN, missing="unknown_person"),
    ("POST", "/people/{person}/lock"): Row(params={"person": "somebody"}, missing="unknown_person"),
    ("POST", "/people/{person}/unlock"): Row(params={"person": "locked"}, missing="unknown_person"),
    ("POST", "/people/{person}/password"): Row(
        params={"person": "somebody"}, missing="unknown_person"
    ),
    ("POST", "/people/{person}/code"): Row(params={"person": "somebody"}, missing="unknown_person"),
    ("PUT", "/people/{person}/quota"): Row(
        {"most_cards": 3}, {"person": "somebody"}, missing="unknown_person"
    ),
    ("DELETE", "/people/{person}"): Row(params={"person": "leaver"}, missing="unknown_person"),
    # ---- the lab
    ("GET", "/mail"): Row(),
    ("PUT", "/mail"): Row({"host": "mail.example", "sender": "lab@mail.example"}),
    ("DELETE", "/mail"): Row(),
    ("GET", "/settings"): Row(),
    ("PUT", "/settings/{setting}"): Row(
        {"value": "fifo"}, {"setting": "policy"}, missing="no_such_setting"
    ),
    ("DELETE", "/settings/{setting}"): Row(params={"setting": "policy"}, missing="no_such_setting"),
    ("GET", "/announcement"): Row(),
    ("PUT", "/announcement"): Row({"text": "x"}),
    ("DELETE", "/announcement"): Row(),
    ("GET", "/pause"): Row(),
    ("PUT", "/pause"): Row({"why": "x"}),
    ("DELETE", "/pause"): Row(),
    ("GET", "/audit"): Row(),
    ("GET", "/audit/verify"): Row(),
    ("GET", "/audit/export"): Row(),
    ("GET", "/server-log"): Row(),
    ("GET", "/server-log/stream"): Row(),
    ("GET", "/server-log/full"): Row(),
    ("GET", "/server-log/full/stream"): Row(),
    # ---- sharing
    ("GET", "/queues"): Row(),
    ("GET", "/queues/{queue}"): Row(params={"queue": "default"}, missing="no_such_queue"),
    ("PUT", "/queues/{queue}"): Row({"priority": 1}, {"queue": "quick"}, NEW),
    ("DELETE", "/queues/{queue}"): Row(params={"queue": "spare"}, missing="no_such_queue"),
    ("GET", "/teams"): Row(),
    ("PUT", "/teams/{team}"): Row({"about": "x"}, {"team": "vision"}, NEW),
    ("POST", "/teams/{team}/members"): Row(
        {"add": ["edited"]}, {"team": "crew"}, missing="no_such_team"
    ),
    ("DELETE", "/teams/{team}"): Row(params={"team": "old"}, missing="no_such_team"),
    ("GET", "/quotas"): Row(),
    ("GET", "/share"): Row(),
    ("GET", "/health"): Row(),
    ("GET", "/version"): Row(),
    ("GET", "/openapi.json"): Row(),
}
