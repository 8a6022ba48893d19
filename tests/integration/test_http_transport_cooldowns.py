"""Pitfall 25: one 429 cools the host for every process that shares a store, through real transports and a real store."""

import threading
import time

import anyio
import pytest

from integration.http_ways import LIBRARIES, WAYS
from outlast import RETRYABLE, RetryPolicy
from outlast.errors import CoolingDownError
from outlast.http import AsyncRetryTransport
from outlast.run.call_state import CURRENT_TASK
from outlast.run.cooldowns import CooldownTracker
from outlast.stores.sqlite.store import SqliteStore
from outlast.testing import fake_clock
from servers.feeds import Answer, FeedServer

ONCE = RetryPolicy(max_attempts=1, retry_on=RETRYABLE)
all_ways = pytest.mark.parametrize("way", WAYS)


@pytest.fixture
def server():
    with FeedServer() as server:
        yield server


@pytest.fixture
def two(tmp_path):
    """Two processes' views of one store."""
    stores = [SqliteStore(tmp_path / "outlast.db") for _ in range(2)]
    views = [CooldownTracker(store) for store in stores]
    yield views
    for view in views:
        view.close()
    for store in stores:
        store.close()


def soon(condition):
    limit = time.monotonic() + 10
    while not condition() and time.monotonic() < limit:
        time.sleep(0.01)
    return condition()


def host(url):
    return url.split("/")[2]


@all_ways
def test_pitfall_25_one_429_cools_the_host_for_every_process(way, server, two):
    here, there = two
    url = server.script("/", Answer(429, {"Retry-After": "100"}, "slow down"))
    other = server.host_url(2, "/other")
    server.script("/other", 200)
    with pytest.raises(way.library.HTTPStatusError):
        way.ask(url, policy=ONCE, cooling=here)
    assert soon(here._store.cooldowns)
    with pytest.raises(CoolingDownError) as caught:
        way.ask(url, policy=ONCE, cooling=there, patience=0)
    assert 90 < caught.value.retry_after <= 100
    assert way.ask(other, policy=ONCE, cooling=there, patience=0).status_code == 200, "other hosts are untouched"
    assert server.count("/") == 1
    (row,) = here._store.cooldowns()
    assert (row.resource, row.capped) == (host(url), 0)
    assert "429" in row.reason


class Broken:
    """A store that is not there."""

    def __getattr__(self, name):
        raise OSError("the database is away")


@all_ways
def test_pitfall_25_with_the_store_down_the_local_limit_holds(way, server, caplog):
    cooling = CooldownTracker(Broken())
    url = server.script("/", Answer(429, {"Retry-After": "100"}))
    try:
        with pytest.raises(way.library.HTTPStatusError):
            way.ask(url, policy=ONCE, cooling=cooling)
        for _ in range(5):
            with pytest.raises(CoolingDownError):
                way.ask(url, policy=ONCE, cooling=cooling, patience=0)
    finally:
        cooling.close()
    assert server.count() == 1
    assert len([record for record in caplog.records if "could not read cooldowns" in record.message]) == 1


@all_ways
@pytest.mark.parametrize("status", [200, 304, 404])
def test_c7_a_probe_that_is_answered_ends_the_waiting(way, server, status):
    cooling = CooldownTracker()
    url = server.script("/", [Answer(429, {"Retry-After": "86400"}), status])
    with fake_clock() as clock:
        with pytest.raises(way.library.HTTPStatusError):
            way.ask(url, policy=ONCE, cooling=cooling)
        clock.advance(3600)
        assert way.ask(url, policy=ONCE, cooling=cooling, patience=0).status_code == status
        assert way.ask(url, policy=ONCE, cooling=cooling, patience=0).status_code == status
    assert server.count() == 3


@all_ways
def test_c7_a_probe_that_fails_keeps_the_others_waiting(way, server):
    cooling = CooldownTracker()
    url = server.script("/", [Answer(429, {"Retry-After": "86400"}), Answer(fault="close"), 200])
    with fake_clock() as clock:
        with pytest.raises(way.library.HTTPStatusError):
            way.ask(url, policy=ONCE, cooling=cooling)
        clock.advance(3600)
        with pytest.raises(way.library.RemoteProtocolError):
            way.ask(url, policy=ONCE, cooling=cooling, patience=0)
        with pytest.raises(CoolingDownError):
            way.ask(url, policy=ONCE, cooling=cooling, patience=0)
        clock.advance(60)
        assert way.ask(url, policy=ONCE, cooling=cooling, patience=0).status_code == 200


@all_ways
def test_who_waits_goes_on_as_soon_as_the_cooldown_is_ended(way, server):
    cooling = CooldownTracker()
    url = server.script("/", 200)
    cooling.start_cooldown(host(url), 3600, "busy")
    ending = threading.Timer(0.2, cooling.end_cooldown, [host(url)])
    ending.start()
    try:
        assert way.ask(url, policy=ONCE, cooling=cooling).status_code == 200
    finally:
        ending.join()


@all_ways
def test_c7_within_a_task_nothing_is_slept_through(way, server):
    cooling = CooldownTracker()
    url = server.script("/", Answer(429, {"Retry-After": "7"}))
    policy = RetryPolicy(max_attempts=3, retry_on=RETRYABLE, base_delay=1)
    token = CURRENT_TASK.set(object())
    try:
        with fake_clock() as clock:
            with pytest.raises(way.library.HTTPStatusError) as caught:
                way.ask(url, policy=policy, cooling=cooling)
            with pytest.raises(CoolingDownError):
                way.ask(url, policy=policy, cooling=cooling)
            assert clock.waits == []
    finally:
        CURRENT_TASK.reset(token)
    assert caught.value.__outlast__.reason == "deferred"
    assert server.count() == 1


@all_ways
@pytest.mark.parametrize(("scope", "left_alone"), [("host", True), ("url", False), (lambda url, _headers: url, False)])
def test_a_narrower_scope_leaves_the_rest_of_the_host_alone(way, server, scope, left_alone):
    cooling = CooldownTracker()
    limited, other = server.script("/a", Answer(429, {"Retry-After": "100"})), server.script("/b", 200)
    with pytest.raises(way.library.HTTPStatusError):
        way.ask(limited, policy=ONCE, cooling=cooling, scope=scope)
    with pytest.raises(CoolingDownError):
        way.ask(limited, policy=ONCE, cooling=cooling, scope=scope, patience=0)
    if left_alone:
        with pytest.raises(CoolingDownError):
            way.ask(other, policy=ONCE, cooling=cooling, scope=scope, patience=0)
    else:
        assert way.ask(other, policy=ONCE, cooling=cooling, scope=scope, patience=0).status_code == 200


@all_ways
def test_a_cooldown_that_grows_while_it_is_waited_for_is_handed_back_with_the_attempts(way, server):
    cooling = CooldownTracker()

    def busier(_request):
        cooling.start_cooldown(host(url), 500, "of another request")
        return Answer(503)

    url = server.script("/", [busier])
    policy = RetryPolicy(max_attempts=3, retry_on=RETRYABLE, base_delay=1)
    with fake_clock(), pytest.raises(CoolingDownError) as caught:
        way.ask(url, policy=policy, cooling=cooling, patience=100)
    assert [each.exception_name for each in caught.value.__outlast__.attempts] == [
        "HTTPStatusError",
        "CoolingDownError",
    ]
    assert caught.value.__outlast__.reason == "deferred"


class Slow:
    """A store whose answers take their time."""

    def __init__(self, gate):
        self.gate = gate

    def __getattr__(self, name):
        self.gate.wait(20)
        raise OSError("the database is away")


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("library", LIBRARIES)
def test_a_slow_store_never_blocks_the_event_loop(library, backend, server):
    gate, turns = threading.Event(), []
    cooling = CooldownTracker(Slow(gate))
    url = server.script("/", Answer(429, {"Retry-After": "100"}))

    async def main():
        async def turn():
            for _ in range(50):
                turns.append(1)
                await anyio.sleep(0.001)
            gate.set()

        transport = AsyncRetryTransport(policy=ONCE, cooling=cooling)
        async with library.AsyncClient(transport=transport) as client, anyio.create_task_group() as group:
            group.start_soon(turn)
            with pytest.raises(library.HTTPStatusError):
                await client.get(url)
            assert len(turns) == 50, "others went on while the store was waited for"

    try:
        anyio.run(main, backend=backend)
    finally:
        gate.set()
        cooling.close()
