"""2,000 sources in one cycle: 100 requests at once and never more, and nobody waits for a retry that sleeps."""

from __future__ import annotations

import asyncio
import os
import threading
import time

import pytest

from integration.monitoring import KINDS, QUICK, add, new_url, opened
from outlast import clock
from servers.feeds import Answer, FeedServer

SOURCES, SLEEPERS, AT_ONCE = 2_000, 300, 100
SOAK = os.environ.get("OUTLAST_SOAK") == "1"


@pytest.fixture(params=KINDS if SOAK else KINDS[:1])  # the store has no part in it but to keep up
def app(request, tmp_path):
    with opened(new_url(request, tmp_path)) as app:
        yield app


class Waiting:
    """A clock on which nobody wakes before a condition is true; whoever would wait for ever fails after a minute."""

    now, monotonic, sleep = time.time, time.monotonic, time.sleep

    def __init__(self, condition):
        self.condition, self.slept, self.overslept = condition, 0, 0

    def chance(self):
        return 0.5

    async def sleep_async(self, seconds):
        self.slept += 1
        for _ in range(600):
            if self.condition():
                return
            await asyncio.sleep(0.1)
        self.overslept += 1


@pytest.fixture
def server():
    with FeedServer() as server:
        yield server


def test_two_thousand_sources_hold_a_hundred_requests_and_sleeping_retries_hold_none(app, server):
    """More of them sleep than the monitor has slots, or sources in its hands, and all of them come first."""
    waiting, full = threading.Semaphore(0), threading.Event()
    arrived = []

    def slow(request):
        arrived.append(request.path)
        waiting.release()
        if len(arrived) >= AT_ONCE:  # as many as may be are here at the same time
            full.set()
        full.wait(60)
        return Answer(body="content")

    numbers = []
    for each in range(SOURCES):
        path = f"/{each}"
        server.script(path, [403, 403, Answer(body="content")] if each < SLEEPERS else [slow])
        numbers.append(server.host_url(each % 4 + 1, path))
    add(app, numbers)

    async def fetch(source, client):
        answer = await client.get(source.url)
        answer.raise_for_status()
        return answer.text

    others = SOURCES - SLEEPERS
    waits = Waiting(lambda: len(arrived) >= others)
    before = clock.use(waits)
    try:
        summary = app.monitor(QUICK, fetch=fetch, concurrency=AT_ONCE, per_host=AT_ONCE).cycle()
    finally:
        clock.use(before)

    assert waits.overslept == 0, "the others were polled while these slept"
    assert waits.slept == SLEEPERS * 2
    paths = [int(each.path[1:]) for each in server.requests]
    first, seen = None, set()
    for place, number in enumerate(paths):
        if number < SLEEPERS and number in seen and first is None:
            first = place
        seen.add(number)
    assert sum(number >= SLEEPERS for number in paths[:first]) == others, "all before the first second request"
    assert len(paths) == others + SLEEPERS * 3
    assert server.most_at_once == AT_ONCE
    cycle = summary.cycle
    assert (cycle.sources, cycle.polled, cycle.changed, cycle.failed) == (SOURCES, SOURCES, SOURCES, 0)


def test_a_host_never_sees_more_requests_than_it_may(app, server):
    """Per host; other hosts have their own."""
    now, most, lock = {}, {}, threading.Lock()

    async def fetch(source):
        host = source.url.split("/")[2]
        with lock:
            now[host] = now.get(host, 0) + 1
            most[host] = max(most.get(host, 0), now[host])
        await asyncio.sleep(0.01)
        with lock:
            now[host] -= 1
        return "content"

    add(app, [f"http://h{each % 3}.example/{each}" for each in range(60)])
    assert app.monitor(QUICK, fetch=fetch, per_host=2).cycle().cycle.changed == 60
    assert most == {f"h{each}.example": 2 for each in range(3)}


def test_the_limit_holds_for_fetchers_that_bring_their_own_client(app):
    """Slots are the monitor's, whoever makes the requests."""
    now, most = 0, 0

    async def fetch(source):
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.01)
        now -= 1
        return "content"

    add(app, [f"http://h{each}.example/" for each in range(60)])
    assert app.monitor(QUICK, fetch=fetch, concurrency=7).cycle().cycle.changed == 60
    assert most == 7
