"""What one person may take of the server."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import structs

from stoker.access.fairuse import FairUse
from stoker.domain.errors import RequestError, StoreDown
from stoker.domain.rules import LAB, Rules
from stoker.lab.book import Book


class Time:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def fair_use(rules: Rules, time: Time | None = None) -> FairUse:
    return FairUse(Book(None, rules), "/", time or Time())  # type: ignore[arg-type]


RULES = structs.replace(LAB, submits_per_s=2, submits_burst=5, disk_full_percent=0)


def test_one_person_alone_has_no_limits() -> None:
    use = fair_use(Rules())
    for _ in range(2000):
        use.take("ana", 10**6)


def test_a_burst_then_the_rate() -> None:
    time = Time()
    use = fair_use(RULES, time)
    for _ in range(5):
        use.take("ana", 10)
    with pytest.raises(RequestError) as refused:
        use.take("ana", 10)
    assert (refused.value.code, refused.value.values["retry_after_s"]) == ("too_many_submits", 1)
    use.take("bo", 10)  # others are not concerned

    time.now = 0.5
    use.take("ana", 10)
    with pytest.raises(RequestError):
        use.take("ana", 10)


@example([0.9, 0.0], 1, 1)  # in floats 0.9 + 1 - 0.9 is less than 1
@given(st.lists(st.floats(0, 10), max_size=60), st.integers(1, 50), st.integers(1, 20))
def test_never_more_than_burst_and_rate(gaps: list[float], per_s: int, burst: int) -> None:
    time = Time()
    use = fair_use(structs.replace(RULES, submits_per_s=per_s, submits_burst=burst), time)
    for taken, gap in enumerate(gaps, start=1):
        time.now += gap
        try:
            use.take("ana", 1)
        except RequestError as error:
            wait_s = error.values["retry_after_s"]
            assert isinstance(wait_s, int)
            time.now += wait_s
            use.take("ana", 1)  # whoever waits as told is let in
        assert taken <= burst + time.now * per_s + 1e-5


def test_a_large_task_is_refused() -> None:
    use = fair_use(RULES)
    use.take("ana", 64 << 10)
    with pytest.raises(RequestError) as refused:
        use.take("ana", (64 << 10) + 1)
    assert refused.value.code == "task_too_large"


def test_a_full_disk_takes_nothing_new(tmp_path: Path) -> None:
    use = fair_use(structs.replace(LAB, disk_full_percent=1))
    assert use.disk_percent() >= 1, "there is something on every disk"
    with pytest.raises(StoreDown) as refused:
        use.take("ana", 1)
    assert refused.value.code == "disk_nearly_full"
