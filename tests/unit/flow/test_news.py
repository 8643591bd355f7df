"""Whoever waits for news can be ended at any moment, also at the one when they come."""

from __future__ import annotations

import asyncio

import pytest

from stoker.flow.news import News


@pytest.mark.parametrize("turns", range(6))
async def test_who_is_cancelled_while_news_come_ends(turns: int) -> None:
    news = News()

    async def follow() -> None:
        seen = 0
        while True:
            await news.after(seen, 30)
            seen = news.last

    task = asyncio.create_task(follow())
    await asyncio.sleep(0.01)
    news.publish(1)
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task], timeout=1)
    was_ended = task.done()
    task.cancel()
    assert was_ended


async def test_it_returns_when_the_time_is_over() -> None:
    await asyncio.wait_for(News().after(0, 0.01), 5)
