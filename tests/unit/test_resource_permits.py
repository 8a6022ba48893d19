"""Permits of a resource: each is given back once, wherever the call that had it ends."""

import contextvars
import itertools
import threading

import anyio
import pytest

import outlast
from outlast import BreakerSettings, RetryPolicy
from outlast.errors import BreakerOpenError, ConcurrencyLimitError, NetworkError
from outlast.testing import fake_clock

_names = (f"permit-{number}" for number in itertools.count())
ONCE = BreakerSettings(consecutive=1, open_for=10)


@pytest.fixture
def clock():
    with fake_clock() as clock:
        yield clock


@pytest.fixture
def make():
    return lambda **settings: outlast.resource(next(_names), **settings)


def test_a_call_refused_by_the_concurrency_limit_gives_its_probe_back(make, clock):
    guard = make(breaker=ONCE, max_concurrency=1)
    permit = guard.enter()
    guard.open(seconds=10)
    clock.advance(10)
    with pytest.raises(ConcurrencyLimitError):
        guard.enter()
    guard.succeeded(permit)
    guard.succeeded(guard.enter())
    assert (guard.breaker.state, guard.running) == ("closed", 0)


@pytest.mark.parametrize("awaits", [False, True])
def test_a_success_of_an_older_generation_forgets_no_failures(make, clock, awaits):
    guard = make(breaker=BreakerSettings(consecutive=3))

    def meanwhile():
        guard.open()
        guard.close()
        for _ in range(2):
            guard.failed(NetworkError("x"), guard.enter())

    async def meanwhile_async():
        meanwhile()

    wrapped = outlast.retry(policy=RetryPolicy(max_attempts=1, resource=guard.name))(
        meanwhile_async if awaits else meanwhile
    )
    anyio.run(wrapped) if awaits else wrapped()
    assert guard.breaker.failures == 2


class TestEnteredHereLeftThere:
    """One resource serves many threads and tasks, and what enters it need not be what leaves it."""

    def test_in_another_context(self, make, clock):
        guard = make(breaker=ONCE, max_concurrency=1)
        guard.open(seconds=10)
        clock.advance(10)
        contextvars.copy_context().run(guard.__enter__)
        with pytest.raises(BreakerOpenError), guard:
            pytest.fail("the only probe is out")
        guard.__exit__(None, None, None)
        assert (guard.breaker.state, guard.running) == ("closed", 0)

    def test_in_another_thread_by_a_failure(self, make):
        guard = make(breaker=ONCE)
        thread = threading.Thread(target=guard.__enter__)
        thread.start()
        thread.join()
        guard.__exit__(NetworkError, NetworkError("x"), None)
        assert guard.breaker.state == "open"

    def test_a_task_leaves_what_it_has_inherited_and_it_is_left_once(self, make):
        guard = make(max_concurrency=2)
        with guard:
            guard.__enter__()
            assert guard.running == 2
            contextvars.copy_context().run(guard.__exit__, None, None, None)
            assert guard.running == 1
        assert guard.running == 0
        guard.__exit__(None, None, None)
        assert guard.running == 0

    def test_each_context_leaves_its_own_first(self, make, clock):
        guard = make(breaker=BreakerSettings(consecutive=1, slow_call=5))
        guard.__enter__()
        clock.advance(6)
        other = contextvars.Context()
        other.run(guard.__enter__)
        other.run(guard.__exit__, None, None, None)
        assert guard.breaker.state == "closed"
        guard.__exit__(None, None, None)
        assert guard.breaker.state == "open"

    def test_contexts_that_leave_it_to_others_do_not_grow(self, make):
        guard = make(max_concurrency=1)
        for _ in range(100):
            guard.__enter__()
            contextvars.Context().run(guard.__exit__, None, None, None)
        guard.__enter__()
        assert (
            len(next(value for name, value in contextvars.copy_context().items() if name.name == "outlast_entered"))
            == 1
        )
        guard.__exit__(None, None, None)
        assert guard.running == 0
