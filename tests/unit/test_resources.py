"""Resources in use: pitfalls 7 and 30-32, budgets, limits and events, alone and in a policy."""

import gc
import itertools
import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import anyio
import pytest

import outlast
from outlast import BreakerSettings, Budget, RetryPolicy, events
from outlast.errors import BreakerOpenError, ConcurrencyLimitError, ConfigError, NetworkError, PermanentError
from outlast.testing import failing, fake_clock

_names = (f"resource-{number}" for number in itertools.count())
ONCE = BreakerSettings(consecutive=1, open_for=10)


@pytest.fixture
def clock():
    with fake_clock() as clock:
        yield clock


@pytest.fixture
def make():
    return lambda **settings: outlast.resource(next(_names), **settings)


def policy(guard, **settings):
    return RetryPolicy(**{"max_attempts": 1, "resource": guard.name, **settings})


def fail():
    raise NetworkError("x")


def trip(guard):
    with pytest.raises(NetworkError):
        outlast.call(fail, policy=policy(guard))


def test_a_policy_with_an_open_breaker_calls_nothing(make, clock):
    guard = make(breaker=ONCE)
    trip(guard)
    clock.advance(4)
    with pytest.raises(BreakerOpenError, match="not called, the breaker is open") as caught:
        outlast.call(lambda: pytest.fail("called"), policy=policy(guard))
    assert caught.value.retry_after == 6
    clock.advance(6)
    assert outlast.call(lambda: "well", policy=policy(guard)) == "well"
    assert guard.breaker.closed


def test_an_open_breaker_refuses_at_once_and_nobody_waits_for_it(make, clock):
    guard = make(breaker=ONCE)
    trip(guard)
    with pytest.raises(BreakerOpenError) as caught:
        outlast.call(lambda: "well", policy=policy(guard, max_attempts=2))
    assert outlast.report_of(caught.value).reason == "breaker"
    assert clock.waits == []


def test_the_call_that_opens_it_raises_its_own_error(make, clock):
    guard = make(breaker=ONCE)
    with pytest.raises(NetworkError) as caught:
        outlast.call(failing(lambda: 1, [NetworkError("x")] * 5), policy=policy(guard, max_attempts=5))
    assert outlast.report_of(caught.value).reason == "breaker"
    assert clock.waits == []


def test_what_is_no_fault_of_the_resource_does_not_open_it(make):
    guard = make(breaker=ONCE)
    for error in (KeyError("k"), outlast.errors.ResourceNotFoundError("x")):
        with pytest.raises(type(error)):
            outlast.call(failing(lambda: 1, [error]), policy=policy(guard, max_attempts=1))
    assert guard.breaker.state == "closed"


def test_a_probe_that_never_comes_back_does_not_keep_it_half_open_for_ever(make, clock):
    guard = make(breaker=ONCE)
    trip(guard)
    clock.advance(10)
    lost = guard.enter()
    with pytest.raises(BreakerOpenError):
        guard.enter()
    clock.advance(10)
    guard.succeeded(guard.enter())
    assert guard.breaker.state == "closed"
    guard.failed(NetworkError("late"), lost)
    assert guard.breaker.state == "closed"


def test_a_resource_that_hangs_opens_its_breaker(make):
    import asyncio

    guard = make(breaker=outlast.BreakerSettings(consecutive=2))

    @outlast.retry(resource=guard.name, attempt_timeout=0.02, max_attempts=6, base_delay=0)
    async def hang():
        await asyncio.sleep(5)

    with pytest.raises(TimeoutError):
        asyncio.run(hang())
    assert guard.breaker.state == "open"


@pytest.mark.parametrize("settings", [{"breaker": True}, {"budget": 3}, {"max_concurrency": 0}])
def test_wrong_settings_are_refused(settings):
    with pytest.raises(outlast.errors.ConfigError, match="give"):
        outlast.resource("never made", **settings)


@pytest.mark.parametrize("probes", [1, 3])
def test_pitfall_30_a_hundred_threads_at_half_open(make, clock, probes):
    guard = make(breaker=ONCE.replace(probes=probes))
    trip(guard)
    clock.advance(10)
    start, hold, through, refused = threading.Barrier(100), threading.Event(), [], []

    def probe():
        through.append(1)
        assert hold.wait(60)

    def caller():
        start.wait()
        try:
            outlast.call(probe, policy=policy(guard))
        except BreakerOpenError:
            refused.append(1)
            if len(refused) == 100 - probes:
                hold.set()

    with ThreadPoolExecutor(100) as pool:
        list(pool.map(lambda _: caller(), range(100)))
    assert (len(through), len(refused)) == (probes, 100 - probes)
    assert guard.breaker.closed


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_pitfall_31_a_cancelled_probe_gives_its_permit_back(make, clock, backend):
    guard = make(breaker=ONCE, max_concurrency=1)

    @outlast.retry(policy=policy(guard))
    async def fetch(seconds):
        await anyio.sleep(seconds)
        return "well"

    async def main():
        with anyio.move_on_after(0.01):
            await fetch(5)
        assert (guard.breaker.state, guard.running) == ("half_open", 0)
        return await fetch(0)

    trip(guard)
    clock.advance(10)
    assert anyio.run(main, backend=backend) == "well"
    assert guard.breaker.closed


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
def test_pitfall_31_what_is_no_exception_is_neither_success_nor_failure(make, clock, stop):
    def fetch():
        raise stop

    guard = make(breaker=ONCE)
    trip(guard)
    clock.advance(10)
    for form in (lambda: outlast.call(fetch, policy=policy(guard)), lambda: _within(guard, fetch)):
        with pytest.raises(stop):
            form()
        assert guard.breaker.state == "half_open"
    assert outlast.call(lambda: "well", policy=policy(guard)) == "well"


def test_pitfall_31_a_predicate_that_raises_gives_the_permit_back(make, clock, caplog):
    broken = []

    def counts(error):
        return 1 / 0 if broken else True

    guard = make(breaker=ONCE.replace(counts=counts))
    trip(guard)
    clock.advance(10)
    broken.append(1)
    with pytest.raises(NetworkError):
        outlast.call(fail, policy=policy(guard))
    assert guard.breaker.state == "half_open"
    assert "the breaker's predicate failed" in caplog.text
    assert outlast.call(lambda: "well", policy=policy(guard)) == "well"


def test_errors_that_say_nothing_of_the_resource_do_not_count(make):
    def missing():
        raise PermanentError("404")

    guard = make(breaker=ONCE)
    for _ in range(3):
        with pytest.raises(PermanentError):
            outlast.call(missing, policy=policy(guard))
    assert guard.breaker.closed


def test_pitfall_32_callers_overlap(make):
    """Ten calls meet inside: were they one after the other, the barrier would break."""
    for settings in ({}, {"failure_rate": 0.5}, {"slow_call": 60}):
        guard, together = make(breaker=BreakerSettings(**settings), max_concurrency=10), threading.Barrier(10)
        with ThreadPoolExecutor(10) as pool:
            list(pool.map(lambda _, g=guard, t=together: outlast.call(t.wait, 5, policy=policy(g)), range(10)))
        assert guard.running == 0


def test_pitfall_32_ten_thousand_rejections_leave_memory_flat(make, clock):
    guard = make(breaker=BreakerSettings(consecutive=1, open_for=1e6))
    trip(guard)
    fetch = outlast.retry(policy=policy(guard))(fail)

    def reject(times):
        for _ in range(times):
            with pytest.raises(BreakerOpenError):
                fetch()
        gc.collect()

    reject(200)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    reject(10_000)
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 100_000


def test_pitfall_7_a_jumping_wall_clock_changes_no_state(make, clock):
    guard = make(breaker=ONCE)
    trip(guard)
    for jump in (3600, -7200):
        clock.jump(jump)
        with pytest.raises(BreakerOpenError):
            outlast.call(fail, policy=policy(guard))


@pytest.mark.parametrize("form", ["call", "block", "async"])
def test_slow_calls(make, clock, form):
    guard = make(breaker=BreakerSettings(consecutive=2, slow_call=3))

    async def slow_async():
        clock.advance(3)

    for _ in range(2):
        if form == "call":
            outlast.call(clock.advance, 3, policy=policy(guard))
        elif form == "block":
            _within(guard, lambda: clock.advance(3))
        else:
            anyio.run(outlast.retry(policy=policy(guard))(slow_async))
    assert (guard.breaker.state, guard.breaker.reason) == ("open", "2 slow calls in a row")


def test_a_rate_window(make):
    guard = make(breaker=BreakerSettings(consecutive=None, failure_rate=0.5, window=4))
    for _ in range(2):
        outlast.call(lambda: 1, policy=policy(guard))
        trip(guard)
    assert guard.breaker.state == "open"


def test_alone_as_a_context_manager(make, clock):
    guard = make(breaker=ONCE, max_concurrency=1)
    with guard:
        assert guard.running == 1
        with pytest.raises(ConcurrencyLimitError), guard:
            pytest.fail("entered")
    with pytest.raises(NetworkError), guard:
        fail()
    with pytest.raises(BreakerOpenError), guard:
        pytest.fail("entered")
    clock.advance(10)
    with guard:
        pass
    assert (guard.breaker.state, guard.running) == ("closed", 0)


def test_opened_and_closed_by_hand(make, clock):
    guard = make(breaker=BreakerSettings())
    guard.open()
    clock.advance(1e9)
    with pytest.raises(BreakerOpenError) as caught:
        outlast.call(fail, policy=policy(guard))
    assert caught.value.retry_after is None
    guard.close()
    assert outlast.call(lambda: 1, policy=policy(guard)) == 1
    guard.open(seconds=5)
    clock.advance(5)
    assert outlast.call(lambda: 1, policy=policy(guard)) == 1
    with pytest.raises(ConfigError, match="has no breaker"):
        make().open()


def test_events(make, clock):
    guard, seen = make(breaker=ONCE, budget=Budget(capacity=1, per_second=0)), []
    stop = outlast.subscribe(
        seen.append, events.BreakerOpened, events.BreakerHalfOpened, events.BreakerClosed, events.BudgetExhausted
    )
    try:
        trip(guard)
        clock.advance(10)
        outlast.call(lambda: 1, policy=policy(guard))
        guard.pay_for_retry()
        guard.pay_for_retry()
    finally:
        stop()
    assert seen == [
        events.BreakerOpened(guard.name, "1 failures in a row", 10),
        events.BreakerHalfOpened(guard.name),
        events.BreakerClosed(guard.name),
        events.BudgetExhausted(guard.name),
    ]


class TestBudget:
    def test_when_it_is_used_up_calls_are_made_and_retries_are_not(self, make, clock):
        guard, calls = make(budget=Budget(capacity=3, per_second=1)), []

        def fetch():
            calls.append(1)
            raise NetworkError("x")

        with pytest.raises(NetworkError) as caught:
            outlast.call(fetch, policy=policy(guard, max_attempts=9, base_delay=0))
        assert (len(calls), caught.value.__outlast__.reason) == (4, "budget")
        with pytest.raises(NetworkError):
            outlast.call(fetch, policy=policy(guard, max_attempts=9, base_delay=0))
        assert len(calls) == 5
        clock.advance(2)
        with pytest.raises(NetworkError):
            outlast.call(fetch, policy=policy(guard, max_attempts=9, base_delay=0))
        assert len(calls) == 8

    def test_it_never_holds_more_than_its_capacity(self):
        budget = Budget(capacity=2, per_second=10)
        assert [budget.take(now) for now in (0, 1000, 1000, 1000, 1000.1, 1000.1)] == [True] * 3 + [False, True, False]

    def test_a_clock_that_goes_back_gives_nothing(self):
        budget = Budget(capacity=1, per_second=1)
        assert [budget.take(now) for now in (10, 5, 5.5)] == [True, False, False]

    @pytest.mark.parametrize("settings", [{"capacity": 0}, {"per_second": -1}, {"capacity": float("nan")}])
    def test_bad_settings_are_refused(self, settings):
        with pytest.raises(ConfigError):
            Budget(**settings)


def test_the_concurrency_limit_refuses_and_never_queues(make):
    guard, inside, leave = make(max_concurrency=2), threading.Barrier(3), threading.Event()

    def work():
        inside.wait(5)
        leave.wait(5)
        raise ValueError("x")

    with ThreadPoolExecutor(2) as pool:
        running = [pool.submit(outlast.call, work, policy=policy(guard)) for _ in range(2)]
        inside.wait(5)
        with pytest.raises(ConcurrencyLimitError, match="the limit of 2 concurrent calls"):
            outlast.call(lambda: 1, policy=policy(guard))
        leave.set()
        assert [type(each.exception()) for each in running] == [ValueError] * 2
    assert guard.running == 0


def test_one_name_is_one_resource(make):
    guard = make(breaker=ONCE)
    assert outlast.resource(guard.name) is guard
    assert outlast.resource(guard.name, breaker=ONCE) is guard, "the same settings"
    with pytest.raises(ConfigError, match="already has other settings"):
        outlast.resource(guard.name, breaker=ONCE, max_concurrency=3)
    with pytest.raises(ConfigError, match="max_concurrency is 0"):
        make(max_concurrency=0)


def _within(guard, function):
    with guard:
        return function()


def test_settings_may_come_after_a_policy_has_named_it(clock):
    @outlast.retry(resource="named first", max_attempts=1)
    def fetch():
        raise NetworkError("x")

    guard = outlast.resource("named first", breaker=ONCE)
    with pytest.raises(NetworkError):
        fetch()
    assert guard.breaker.state == "open"
    with pytest.raises(BreakerOpenError):
        fetch()
    with pytest.raises(outlast.errors.ConfigError, match="already has other settings"):
        outlast.resource("named first", max_concurrency=3)
