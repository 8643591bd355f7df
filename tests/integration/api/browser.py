"""A browser as far as the server can tell: a session's cookie, where its page is from, its word."""

from __future__ import annotations

from typing import Any

from tests.helpers.api_server import ApiServer, Reply

PASSWORD = "correct horse"


class Browser:
    def __init__(self, server: ApiServer, host: str = "") -> None:
        self.server, self.host = server, host or f"127.0.0.1:{server.port}"
        self.cookie, self.csrf = "", ""
        self.person: Any = None

    def log_in(self, name: str, password: str = PASSWORD, **more: Any) -> Reply:
        wish = {"name": name, "password": password, "kind": "session"} | more
        return self._taken(self.send("POST", "/login", wish))

    def with_code(self, code: str) -> Reply:
        return self._taken(self.send("POST", "/login", {"code": code, "kind": "session"}))

    def send(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        raw: bytes | None = None,
        **changed: Any,
    ) -> Reply:
        """A request as a page of ours sends it. `changed`: other headers; None leaves one out."""
        return self.server.request(
            method, path, body, raw=raw, headers=self.headers(method, **changed), token=""
        )

    def headers(self, method: str, **changed: Any) -> dict[str, str]:
        known: dict[str, Any] = {"Host": self.host, "Sec_Fetch_Site": "same-origin"}
        if self.cookie:
            known["Cookie"] = self.cookie
        if method != "GET":
            known |= {"Origin": f"http://{self.host}", "X_Stoker_CSRF": self.csrf}
        known |= changed
        return {n.replace("_", "-"): v for n, v in known.items() if v is not None}

    def _taken(self, reply: Reply) -> Reply:
        if reply.status == 200:
            self.cookie = reply.headers["Set-Cookie"].partition(";")[0]
            self.csrf, self.person = reply.json["csrf"], reply.json["person"]
        return reply
