"""What users test with: a clock that does not wait, and functions that fail as told."""

import inspect
import time

import anyio
import pytest

import outlast
from outlast import clock as real
from outlast import testing
from outlast.errors import NetworkError
from outlast.testing import FakeClock, failing, fake_clock


def test_retries_wait_for_nothing_and_every_wait_is_noted():
    began = time.monotonic()
    with fake_clock() as clock:
        outlast.call(failing(lambda: 1, [NetworkError("x")] * 2), policy=outlast.RetryPolicy(base_delay=60))
    assert clock.waits == [60, 60]
    assert time.monotonic() - began < 60


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_async_too(backend):
    async def fetch():
        return "done"

    with fake_clock() as clock:
        assert anyio.run(outlast.retry(failing(fetch, [NetworkError("x")])), backend=backend) == "done"
    assert clock.waits == [0.5]


def test_time_moves_only_when_told():
    clock = FakeClock(start=100)
    before = clock.monotonic()
    clock.advance(5)
    clock.jump(3600)
    assert (clock.now(), clock.monotonic() - before) == (3705, 5)


def test_chance_is_what_it_is_told_to_be():
    for chance, expected in ((0.0, []), (0.5, [0.25]), (1.0, [0.5])):
        with fake_clock(chance=chance) as clock:
            outlast.retry(failing(lambda: 1, [NetworkError("x")]))()
        assert clock.waits == expected


def test_the_clock_before_is_put_back():
    with fake_clock() as outer:
        with pytest.raises(NetworkError), fake_clock():
            raise NetworkError("x")
        assert real.monotonic() == outer.monotonic()
    assert real.monotonic is time.monotonic
    assert real.sleep is time.sleep


def test_failing_lets_through_where_told():
    fetch = failing(lambda value: value, [NetworkError("x"), None, NetworkError])
    with pytest.raises(NetworkError):
        fetch(1)
    assert fetch(2) == 2
    with pytest.raises(NetworkError):
        fetch(3)
    assert [fetch(4), fetch(5)] == [4, 5]


def test_failing_keeps_a_coroutine_function_one():
    async def fetch():
        return 1

    assert inspect.iscoroutinefunction(failing(fetch, []))
    assert not inspect.iscoroutinefunction(failing(lambda: 1, []))


def test_names_are_loaded_lazily_and_none_is_missing():
    assert sorted(testing._HOMES) == sorted(testing.__all__)
    assert {getattr(testing, name).__name__ for name in testing.__all__} == set(testing.__all__)
    assert set(testing.__all__) <= set(dir(testing))
    with pytest.raises(AttributeError, match="has no attribute 'fake_clok'"):
        testing.fake_clok  # noqa: B018


def test_a_clock_shows_what_was_waited_for():
    clock = FakeClock(start=100)
    clock.sleep(0.5)
    assert repr(clock) == "FakeClock(now=100.500, waits=[0.5])"
