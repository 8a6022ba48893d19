"""The forms of retry: what can be decorated (pitfalls 15, 16), per-call policies, fallbacks, and switching it off."""

import contextvars
import functools
import inspect
import threading
from concurrent.futures import ThreadPoolExecutor
from unittest.mock import AsyncMock

import anyio
import anyio.lowlevel
import pytest

import outlast
from outlast import RetryPolicy
from outlast.errors import ConfigError, NetworkError, RateLimitError
from outlast.testing import failing, fake_clock

THREE = RetryPolicy(max_attempts=3)


@pytest.fixture(autouse=True)
def clock():
    with fake_clock() as clock:
        yield clock


class Flaky:
    """Fails twice in every form a method can have."""

    def __init__(self):
        self.calls = 0

    def _go(self):
        self.calls += 1
        if self.calls % 3:
            raise NetworkError("x")
        return self.calls

    @outlast.retry(policy=THREE)
    def method(self, extra=0):
        return self._go() + extra

    @outlast.retry(policy=THREE)
    async def coroutine(self, extra=0):
        return self._go() + extra

    def __call__(self):
        return self._go()


class AsyncFlaky(Flaky):
    async def __call__(self):
        return self._go()


class Shared:
    flaky = Flaky()

    @outlast.retry(policy=THREE)
    @classmethod
    def outside_class(cls):
        return cls, cls.flaky._go()

    @classmethod
    @outlast.retry(policy=THREE)
    def inside_class(cls):
        return cls, cls.flaky._go()

    @outlast.retry(policy=THREE)
    @staticmethod
    def outside_static(value):
        return value, Shared.flaky._go()

    @staticmethod
    @outlast.retry(policy=THREE)
    def inside_static(value):
        return value, Shared.flaky._go()


class TestWhatCanBeDecorated:
    """Pitfall 15."""

    def test_pitfall_15_methods(self):
        flaky = Flaky()
        assert flaky.method(extra=10) == 13
        assert anyio.run(flaky.coroutine, 20) == 26
        assert inspect.iscoroutinefunction(flaky.coroutine)

    def test_pitfall_15_bound_methods(self):
        flaky = Flaky()
        assert outlast.retry(policy=THREE)(flaky._go)() == 3

    def test_pitfall_15_class_and_static_methods_in_either_order(self):
        Shared.flaky = Flaky()
        for owner in (Shared, Shared()):
            assert owner.outside_class()[0] is Shared
            assert owner.inside_class()[0] is Shared
            assert owner.outside_static("a")[0] == "a"
            assert owner.inside_static("b")[0] == "b"
        assert Shared.flaky.calls == 24

    def test_pitfall_15_partials_and_callable_objects(self):
        flaky = Flaky()
        assert outlast.retry(policy=THREE)(functools.partial(flaky._go))() == 3
        assert outlast.retry(policy=THREE)(flaky)() == 6
        assert outlast.call(functools.partial(Flaky.method, flaky, extra=1), policy=THREE) == 10

    @pytest.mark.parametrize("backend", ["asyncio", "trio"])
    def test_pitfall_15_coroutine_functions_behind_them(self, backend):
        async def fetch(flaky, extra):
            return flaky._go() + extra

        flaky = AsyncFlaky()
        for form in (
            functools.partial(fetch, flaky, 0),
            functools.partial(functools.partial(fetch, flaky), extra=0),
            flaky,
            flaky.__call__,
        ):
            decorated = outlast.retry(policy=THREE)(form)
            assert inspect.iscoroutinefunction(decorated)
            assert anyio.run(decorated, backend=backend) % 3 == 0
        assert flaky.calls == 12

    def test_pitfall_15_a_mock_of_a_coroutine_function(self):
        mock = AsyncMock(side_effect=[NetworkError("x"), "done"])
        assert anyio.run(outlast.retry(policy=THREE)(mock)) == "done"

    def test_pitfall_15_a_function_that_hands_out_a_coroutine_is_refused(self):
        async def fetch():
            raise NetworkError("x")

        with pytest.raises(ConfigError, match="returned a coroutine"):
            outlast.call(lambda: fetch(), policy=THREE)  # noqa: PLW0108  # the lambda is the point

    @pytest.mark.parametrize("thing", [3, None.__class__, Flaky, functools.partialmethod(Flaky._go), RetryPolicy()])
    def test_pitfall_15_what_cannot_be_retried_is_refused(self, thing):
        with pytest.raises(ConfigError, match="cannot be retried"):
            outlast.retry()(thing)

    def test_signature_and_names_are_kept(self):
        assert Flaky.method.__name__ == "method"
        assert list(inspect.signature(Flaky.method).parameters) == ["self", "extra"]

    def test_pitfall_16_generators_are_refused(self):
        def items():
            yield 1

        async def async_items():
            yield 1

        for form in (items, async_items, functools.partial(items), staticmethod(items)):
            with pytest.raises(ConfigError, match="is a generator; retrying it would repeat items"):
                outlast.retry(form)


class TestNoRetries:
    def test_every_call_is_made_once(self, clock):
        flaky = Flaky()
        with outlast.no_retries(), pytest.raises(NetworkError) as caught:
            flaky.method()
        assert (flaky.calls, clock.waits) == (1, [])
        assert caught.value.__outlast__.reason == "off"
        assert flaky.method() == 3

    def test_it_nests_and_ends_with_its_block(self):
        with outlast.no_retries():
            with outlast.no_retries():
                pass
            with pytest.raises(NetworkError):
                Flaky().method()
        assert Flaky().method() == 3

    def test_one_instance_may_be_entered_again_inside_itself(self):
        off = outlast.no_retries()
        for _ in range(2):
            with off:
                with off, off:
                    pass
                with pytest.raises(NetworkError):
                    Flaky().method()
            assert Flaky().method() == 3

    def test_one_instance_serves_threads_at_once(self):
        off, inside, outside = outlast.no_retries(), threading.Barrier(2), threading.Barrier(2)

        def work(first):
            with off:
                inside.wait(5)
                if not first:
                    outside.wait(5)  # the other one has left its block
                with pytest.raises(NetworkError):
                    Flaky().method()
            if first:
                outside.wait(5)
            return Flaky().method()

        with ThreadPoolExecutor(2) as pool:
            assert list(pool.map(work, (True, False))) == [3, 3]
        assert Flaky().method() == 3

    @pytest.mark.parametrize("backend", ["asyncio", "trio"])
    def test_one_instance_serves_tasks_at_once(self, backend):
        off, done = outlast.no_retries(), []

        async def work(turns):
            with off:
                for _ in range(turns):
                    await anyio.lowlevel.checkpoint()
                with pytest.raises(NetworkError):
                    await Flaky().coroutine()
            done.append(await Flaky().coroutine())

        async def main():
            async with anyio.create_task_group() as group:
                for turns in (5, 1, 3):
                    group.start_soon(work, turns)
            return await Flaky().coroutine()

        assert anyio.run(main, backend=backend) == 3
        assert done == [3, 3, 3]

    def test_a_block_that_ends_in_another_context_ends_quietly(self):
        """As a fixture does that is set up in one task and torn down in another."""
        off = outlast.no_retries()
        contextvars.copy_context().run(off.__enter__)
        off.__exit__(None, None, None)
        assert Flaky().method() == 3
        with off, pytest.raises(NetworkError):
            Flaky().method()

    def test_blocks_and_coroutines_too(self):
        async def main():
            with outlast.no_retries(), pytest.raises(NetworkError):
                await Flaky().coroutine()
            with outlast.no_retries(), pytest.raises(NetworkError):
                async for attempt in outlast.attempts(THREE):
                    with attempt:
                        raise NetworkError("x")

        anyio.run(main)


class TestWithPolicy:
    def test_for_one_call(self):
        calls = []

        @outlast.retry(policy=THREE)
        def fetch():
            calls.append(1)
            raise NetworkError("x")

        for changed, expected in (
            (outlast.with_policy(fetch, max_attempts=2), 2),
            (outlast.with_policy(fetch, max_retries=4), 4),
            (outlast.with_policy(fetch, RetryPolicy(max_attempts=1)), 1),
            (outlast.with_policy(fetch, RetryPolicy(max_attempts=1), max_attempts=5), 5),
            (fetch, 3),
        ):
            calls.clear()
            with pytest.raises(NetworkError):
                changed()
            assert len(calls) == expected

    def test_methods(self):
        flaky = Flaky()
        assert outlast.with_policy(flaky.method, max_attempts=4)(extra=1) == 4
        assert anyio.run(outlast.with_policy(flaky.coroutine, max_attempts=4), 1) == 7
        with pytest.raises(NetworkError):
            outlast.with_policy(flaky.method, max_attempts=1)()
        Shared.flaky = Flaky()
        assert outlast.with_policy(Shared.inside_class, max_attempts=4)()[0] is Shared
        assert outlast.with_policy(Shared.outside_static, max_attempts=4)("v")[0] == "v"

    def test_the_fallback_stays(self):
        fetch = outlast.retry(policy=THREE, fallback=lambda error: "cached")(
            failing(lambda: 1, [NetworkError("x")] * 9)
        )
        assert outlast.with_policy(fetch, max_attempts=2)() == "cached"

    def test_a_policy_that_is_none_is_refused(self):
        fetch = outlast.retry(policy=THREE)(Flaky()._go)
        for form in (
            lambda: outlast.with_policy(fetch, 5),
            lambda: outlast.call(fetch, policy=5),
            lambda: outlast.node(retry_policy=5)(fetch),
        ):
            with pytest.raises(ConfigError, match="policy is 5; give a RetryPolicy"):
                form()

    def test_what_is_not_decorated_is_refused(self):
        with pytest.raises(ConfigError, match="is not decorated with a policy"):
            outlast.with_policy(Flaky()._go, max_attempts=2)


class TestCurrentAttempt:
    def test_none_outside(self):
        assert outlast.current_attempt() is None

    @pytest.mark.parametrize("settings", [{}, {"deadline": 30}, {"resource": "current"}])
    def test_first_and_later_ones(self, settings):
        seen = []

        def note():
            now = outlast.current_attempt()
            seen.append((now.number, now.max_attempts, now.time_left))
            raise NetworkError("x")

        async def note_async():
            note()

        left = [30, 29, 28] if "deadline" in settings else [None] * 3
        for run in (outlast.call, lambda function, policy: anyio.run(outlast.retry(policy=policy)(function))):
            seen.clear()
            with pytest.raises(NetworkError):
                run(note if run is outlast.call else note_async, policy=THREE.replace(**settings))
            assert [(number, most) for number, most, _ in seen] == [(1, 3), (2, 3), (3, 3)]
            assert [time for *_, time in seen] == left

    def test_the_nearest_one_is_meant(self):
        def inner():
            return outlast.current_attempt().max_attempts

        assert outlast.call(lambda: outlast.call(inner, policy=RetryPolicy(max_attempts=7)), policy=THREE) == 7

    @pytest.mark.parametrize("settings", [{}, {"deadline": 3600}, {"resource": "current-nested"}], ids=str)
    def test_in_nested_retries_each_level_has_its_own(self, settings):
        """After an inner call, failed or not, the outer attempt is the current one again."""
        seen = []

        def note(level):
            now = outlast.current_attempt()
            seen.append((level, now.number, now.max_attempts))

        @outlast.retry(THREE.replace(max_attempts=2, **settings))
        def inner(fails):
            note("inner")
            if fails and outlast.current_attempt().number == 1:
                raise NetworkError("x")

        @outlast.retry(THREE.replace(**settings))
        def outer():
            number = outlast.current_attempt().number
            note("outer")
            inner(fails=number == 2)
            note("outer")
            if number < 3:
                raise NetworkError("x")

        outer()
        assert seen == [
            ("outer", 1, 3),
            ("inner", 1, 2),
            ("outer", 1, 3),
            ("outer", 2, 3),
            ("inner", 1, 2),
            ("inner", 2, 2),
            ("outer", 2, 3),
            ("outer", 3, 3),
            ("inner", 1, 2),
            ("outer", 3, 3),
        ]
        assert outlast.current_attempt() is None

    @pytest.mark.parametrize("settings", [{}, {"deadline": 3600}, {"resource": "current-nested"}], ids=str)
    def test_in_nested_coroutines_and_their_tasks_too(self, settings):
        seen = []

        def note(level):
            now = outlast.current_attempt()
            seen.append((level, now.number, now.max_attempts))

        @outlast.retry(THREE.replace(max_attempts=2, **settings))
        async def inner():
            await anyio.lowlevel.checkpoint()
            note("inner")
            if outlast.current_attempt().number == 1:
                raise NetworkError("x")

        @outlast.retry(THREE.replace(**settings))
        async def outer():
            number = outlast.current_attempt().number
            async with anyio.create_task_group() as group:
                group.start_soon(inner)
            note("outer")
            if number == 1:
                raise NetworkError("x")

        anyio.run(outer)
        assert seen == [
            ("inner", 1, 2),
            ("inner", 2, 2),
            ("outer", 1, 3),
            ("inner", 1, 2),
            ("inner", 2, 2),
            ("outer", 2, 3),
        ]
        assert outlast.current_attempt() is None

    def test_in_a_block_within_a_call(self):
        seen = []

        def outer():
            for attempt in outlast.attempts(RetryPolicy(max_attempts=2)):
                with attempt:
                    seen.append((attempt.number, outlast.current_attempt().number))
                    if attempt.number == 1:
                        raise NetworkError("x")
            seen.append(outlast.current_attempt().max_attempts)

        outlast.call(outer, policy=THREE)
        assert seen == [(1, 1), (2, 2), 3]

    def test_after_an_error_that_is_raised_it_is_none_again(self):
        with pytest.raises(ValueError, match="x"):
            outlast.call(failing(lambda: None, [ValueError("x")]))
        assert outlast.current_attempt() is None

    def test_in_a_pool_of_threads_only_if_the_function_itself_is_retried(self):
        """Its threads do not have the context of the caller."""
        decorated = outlast.retry(RetryPolicy(max_attempts=7))(lambda: outlast.current_attempt().max_attempts)

        with ThreadPoolExecutor(1) as pool:

            def outer():
                return pool.submit(outlast.current_attempt).result(), pool.submit(decorated).result()

            assert outlast.call(outer, policy=THREE) == (None, 7)
            assert pool.submit(outlast.current_attempt).result() is None

    def test_in_a_thread_with_the_context_of_the_caller(self):
        async def outer():
            return (await anyio.to_thread.run_sync(outlast.current_attempt)).max_attempts

        assert anyio.run(outlast.retry(THREE)(outer)) == 3

    def test_it_is_not_left_behind_by_a_coroutine_that_is_never_finished(self):
        @outlast.retry(THREE)
        async def fetch():
            await anyio.sleep_forever()

        async def main():
            with anyio.move_on_after(0.01):
                await fetch()
            return outlast.current_attempt()

        assert anyio.run(main) is None


class TestPolicyByPosition:
    """``@outlast.retry(policy)`` is ``@outlast.retry(policy=policy)``."""

    def test_sync(self, clock):
        policy = RetryPolicy(max_attempts=3, base_delay=7)
        fetch = outlast.retry(policy)(failing(lambda a: a, [NetworkError("x")] * 2))
        assert fetch("done") == "done"
        assert clock.waits == [7, 7]
        assert fetch.__outlast_policy__ is policy

    def test_async(self, clock):
        calls = []

        @outlast.retry(RetryPolicy(max_attempts=3, base_delay=7))
        async def fetch(a):
            calls.append(a)
            if len(calls) < 3:
                raise NetworkError("x")
            return a

        assert anyio.run(fetch, "done") == "done"
        assert clock.waits == [7, 7]

    def test_with_a_preset_and_a_fallback(self):
        @outlast.retry(outlast.preset("etl"), fallback=lambda error: "cached")
        def fetch():
            raise NetworkError("x")

        assert fetch() == "cached"

    def test_without_retry_on_it_retries_what_is_retryable(self, clock):
        """C14."""
        for form in (outlast.retry(RetryPolicy()), outlast.retry(policy=RetryPolicy()), outlast.retry()):
            clock.waits.clear()
            with pytest.raises(ValueError, match="x"):
                form(failing(lambda: None, [ValueError("x")]))()
            assert clock.waits == []
        assert outlast.retry(RetryPolicy(retry_on=Exception))(failing(lambda: 1, [ValueError("x")]))() == 1
        with pytest.raises(NetworkError):
            outlast.retry(RetryPolicy(retry_on=()))(failing(lambda: 1, [NetworkError("x")]))()

    def test_in_observe_mode(self):
        calls = []

        @outlast.retry(THREE, mode="observe")
        def fetch():
            calls.append(1)
            raise NetworkError("x")

        with pytest.raises(NetworkError):
            fetch()
        assert len(calls) == 1

    def test_given_twice_it_is_refused(self):
        with pytest.raises(ConfigError, match="the policy is given twice"):
            outlast.retry(THREE, policy=THREE)
        with pytest.raises(ConfigError, match="not both"):
            outlast.retry(THREE, max_attempts=2)


class TestFallback:
    def test_it_gets_the_error_and_gives_the_value(self):
        errors = []

        @outlast.retry(policy=THREE, fallback=lambda error: errors.append(error) or "cached")
        def fetch():
            raise NetworkError("x")

        assert fetch() == "cached"
        assert errors[0].__outlast__.reason == "exhausted"

    @pytest.mark.parametrize("policy", [THREE, THREE.replace(resource="fallback"), THREE.replace(deadline=60)])
    def test_async_with_either_kind(self, policy):
        async def later(error):
            return "later"

        async def fetch():
            raise NetworkError("x")

        for fallback, expected in ((lambda error: None, None), (later, "later")):
            assert anyio.run(outlast.retry(policy=policy, fallback=fallback)(fetch)) is expected

    def test_not_for_what_is_no_exception(self):
        def stop():
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            outlast.retry(policy=THREE, fallback=lambda error: "cached")(stop)()


@pytest.mark.parametrize("form", ["retry", "call", "attempts"])
def test_without_a_policy_every_form_makes_the_same_attempts(form):
    """5 attempts, exponential from 0.5 s, full jitter; `chance` of 1.0 is the longest wait."""
    fetch = failing(lambda: None, [TimeoutError("x")] * 6)
    with fake_clock(chance=1.0) as clock, pytest.raises(TimeoutError) as caught:
        if form == "retry":
            outlast.retry(fetch)()
        elif form == "call":
            outlast.call(fetch)
        else:
            for attempt in outlast.attempts():
                with attempt:
                    fetch()

    assert clock.waits == [0.5, 1.0, 2.0, 4.0]
    assert outlast.report_of(caught.value).reason == "exhausted"


def test_call_without_a_policy_has_a_deadline():
    with fake_clock(chance=1.0) as clock, pytest.raises(RateLimitError) as caught:
        outlast.call(failing(lambda: None, [RateLimitError("busy", retry_after=61)]))

    assert (clock.waits, outlast.report_of(caught.value).reason) == ([], "deferred")


def test_call_takes_arguments_and_retries_what_is_retryable():
    """C14."""
    fetch = failing(lambda a, *, b: (a, b), [NetworkError("x"), TimeoutError("x")])
    assert outlast.call(fetch, 1, b=2) == (1, 2)
    fetch = failing(lambda a, *, b: (a, b), [ValueError("x"), KeyError("x")])
    assert outlast.call(fetch, 1, b=2, policy=RetryPolicy(retry_on=Exception)) == (1, 2)
    with pytest.raises(ValueError, match="x") as caught:
        outlast.call(failing(lambda a, *, b: (a, b), [ValueError("x")]), 1, b=2)
    assert caught.value.__outlast__.reason == "permanent"
    assert anyio.run(functools.partial(outlast.call, Flaky().coroutine)) == 3
