"""The page at `/`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.helpers.api_server import ApiServer, serving


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with serving(tmp_path_factory.mktemp("front"), host_names=["gpu.lab.example"]) as running:
        yield running


def page(server: ApiServer, host: str, **headers: str) -> str:
    connection = server.connect()
    try:
        connection.request("GET", "/", headers={"Host": host, **headers})
        answer = connection.getresponse()
        assert answer.status == 200
        assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
        assert "script-src 'self'" in answer.headers["Content-Security-Policy"]
        return answer.read().decode()
    finally:
        connection.close()


def test_it_says_how_to_come_in(server: ApiServer) -> None:
    said = page(server, f"127.0.0.1:{server.port}")

    assert f"stoker login --url http://127.0.0.1:{server.port}" in said
    assert "not encrypted" not in said


def test_it_warns_where_others_can_read_along(server: ApiServer) -> None:
    assert "not encrypted" in page(server, f"gpu.lab.example:{server.port}")
    chinese = page(server, "gpu.lab.example", **{"Accept-Language": "zh-CN"})
    assert "未加密" in chinese
    assert 'lang="zh"' in chinese


def test_nobody_else_s_name_gets_a_page(server: ApiServer) -> None:
    connection = server.connect()
    connection.request("GET", "/", headers={"Host": "<script>alert(1)</script>"})
    answer = connection.getresponse()
    assert answer.status == 421
    assert answer.headers["Content-Type"] == "application/json"
    connection.close()
