"""Wishes, channels and addresses."""

from __future__ import annotations

import pytest

from stoker.domain.errors import InvalidSpec
from stoker.domain.notice import check_wishes, is_address, is_channel, told_over


@pytest.mark.parametrize(
    ("wishes", "kinds", "over"),
    [
        ((), ("failed", "finished"), ()),
        (("none",), ("failed", "finished"), ()),
        (("failed",), ("failed", "finished"), ("mail", "feishu")),
        (("finished",), ("failed", "finished"), ("mail", "feishu")),
        (("failed",), ("finished",), ()),
        (("all",), ("limit",), ("mail", "feishu")),
        (("failed:feishu",), ("failed", "finished"), ("feishu",)),
        (("failed:feishu", "finished"), ("failed", "finished"), ("feishu", "mail")),
        (("failed:gone",), ("failed",), ("gone",)),
        (("nonsense",), ("failed",), ()),
    ],
)
def test_over_what_somebody_is_told(
    wishes: tuple[str, ...], kinds: tuple[str, ...], over: tuple[str, ...]
) -> None:
    assert told_over(wishes, kinds, ("mail", "feishu")) == over


@pytest.mark.parametrize(
    ("wishes", "field"),
    [
        (("started", "x"), "notify[1]"),
        (("failed:",), "notify[0]"),
        (("failed:A",), "notify[0]"),
        (("none:mail",), "notify[0]"),
        (("none", "all"), "notify"),
        (("all",) * 33, "notify"),
    ],
)
def test_what_is_no_wish_is_refused(wishes: tuple[str, ...], field: str) -> None:
    with pytest.raises(InvalidSpec) as caught:
        check_wishes(wishes)
    assert caught.value.field == field


@pytest.mark.parametrize(
    "good", ["ana@lab.example", "a.b+c@x.y", "o'neil@uni-x.edu.cn", "root@localhost"]
)
def test_an_address(good: str) -> None:
    assert is_address(good)


@pytest.mark.parametrize(
    "bad",
    [
        "", "ana", "@x", "ana@", "a b@c.d", "a@b\nBcc: c@d", "a@b.c,d@e.f", "Ana <a@b.c>", "a@b..c",
        "a@b.c\r", "a@b.c\x00", "ana@实验室", '"a"@b', "a" * 65 + "@b.c", "a@-b", "a@b.c ",
    ],
)  # fmt: skip
def test_no_address(bad: str) -> None:
    assert not is_address(bad)


@pytest.mark.parametrize(
    ("name", "good"),
    [
        ("feishu", True),
        ("a-b_1", True),
        ("", False),
        ("A", False),
        ("a/b", False),
        ("a" * 33, False),
    ],
)
def test_names_of_channels(name: str, good: bool) -> None:
    assert is_channel(name) is good
