"""Pipelines (R4), sync and async alike: fallbacks, hooks, parameters, types and the trace."""

import asyncio
import functools

import anyio
import pytest

import outlast
from outlast import RetryPolicy, Trace
from outlast.errors import ConfigError, NetworkError
from outlast.testing import fake_clock


@pytest.fixture(autouse=True)
def clock():
    with fake_clock() as clock:
        yield clock


def _async(*steps, **settings):
    return anyio.run(functools.partial(outlast.typed_async_pipeline, *steps, **settings))


@pytest.fixture(params=[outlast.typed_pipeline, _async], ids=["sync", "async"])
def run(request):
    return request.param


def fetch() -> list[int]:
    return [1, 2]


def total(numbers: list[int]) -> int:
    return sum(numbers)


def show(number: int) -> str:
    return f"<{number}>"


def broken(number: int) -> int:
    raise ValueError("broken")


def test_each_step_gets_what_the_one_before_returned(run):
    assert run(fetch, total, show) == "<3>"
    assert run(fetch) == [1, 2]


def test_the_errors_of_a_step_are_raised(run):
    with pytest.raises(ValueError, match="broken"):
        run(fetch, total, broken, show)


class TestOnError:
    def test_it_gets_the_error_and_the_name_and_gives_the_value(self, run):
        seen = []

        def handler(error, step):
            seen.append((error, step))
            return 7

        assert run(fetch, total, broken, show, on_error=handler) == "<7>"
        assert [(type(error), step) for error, step in seen] == [(ValueError, "broken")]
        assert type(seen[0][1]) is str

    def test_none_is_delivered_to_the_next_step(self, run):
        assert run(fetch, total, broken, lambda value: [value], on_error=lambda error, step: None) == [None]
        assert run(broken_start, on_error=lambda error, step: None) is None

    def test_a_bare_raise_raises_the_original_which_is_never_chained_to_itself(self, run):
        original = ValueError("original")

        def step():
            raise original

        def bare(error, step):
            raise  # noqa: PLE0704  # called inside the except block, as R4 says

        def named(error, step):
            raise error

        for handler in (bare, named):
            with pytest.raises(ValueError, match="original") as caught:
                run(step, on_error=handler)
            assert caught.value is original
            assert original.__cause__ is None
            assert original.__context__ is None

    def test_another_error_is_chained_to_the_original(self, run):
        def handler(error, step):
            raise RuntimeError(step) from error

        with pytest.raises(RuntimeError, match="broken") as caught:
            run(fetch, total, broken, on_error=handler)
        assert isinstance(caught.value.__cause__, ValueError)

    def test_it_comes_after_the_retries(self, run, clock):
        calls = []

        @outlast.node(retry_policy=RetryPolicy(max_retries=3, retry_on=(ConnectionError,), backoff="exponential"))
        def load():
            calls.append(1)
            raise ConnectionError("down")

        def handler(error, step):
            match error:
                case ConnectionError():
                    return [40, 2]
                case _:
                    raise error

        assert run(load, total, on_error=handler) == 42
        assert (len(calls), clock.waits) == (3, [1, 2])

    @pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
    def test_what_is_no_exception_passes(self, run, stop):
        def step():
            raise stop

        with pytest.raises(stop):
            run(step, on_error=lambda error, step: pytest.fail("asked"))


def broken_start():
    raise ValueError("start")


class TestOnStep:
    def test_it_hears_of_every_step_that_gave_a_value(self, run):
        seen = []
        run(fetch, total, broken, show, on_step=lambda *told: seen.append(told), on_error=lambda error, step: 0)
        assert seen == [("fetch", [1, 2]), ("total", 3), ("broken", 0), ("show", "<0>")]

    def test_what_it_raises_fails_nothing(self, run, caplog):
        def hook(step, value):
            raise RuntimeError("hook")

        assert run(fetch, total, on_step=hook, on_error=lambda error, step: pytest.fail("not a step's error")) == 3
        assert "on_step failed after fetch" in caplog.text


class TestParams:
    def test_they_go_to_the_steps_that_have_names_for_them(self, run):
        def start(base, *, factor=1):
            return base * factor

        def add(value, base):
            return value + base

        def only_by_name(*, factor):
            return factor

        def whatever(value, **rest):
            return value, rest

        assert run(start, add, params={"base": 2, "factor": 10}) == 22
        assert run(fetch, only_by_name, params={"factor": 3}) == 3
        assert run(fetch, whatever, params={"a": 1}) == ([1, 2], {"a": 1})

    def test_they_never_take_the_place_of_the_value(self, run):
        def add(value, extra):
            return value + extra

        assert run(lambda value: value, add, params={"value": 1, "extra": 5}) == 6

    def test_one_that_nobody_takes_is_refused(self, run):
        with pytest.raises(ConfigError, match="no step has the parameter 'bas' of params; they have: base"):
            run(lambda base: base, params={"bas": 2})

    def test_steps_that_take_nothing_and_built_ins(self, run):
        assert run(fetch, lambda: "anew") == "anew"
        assert run(fetch, sum, str) == "3"


class TestTypes:
    def test_steps_that_do_not_fit_are_named_before_anything_runs(self, run):
        ran = []

        def first() -> str:
            ran.append(1)
            return "x"

        with pytest.raises(ConfigError, match=r"first returns str, but the step after it, .*total, takes list"):
            run(first, total)
        with pytest.raises(ConfigError, match="total returns int, but the step after it, total, takes list"):
            run(fetch, total, total)
        assert ran == []

    def test_nodes_are_looked_through(self, run):
        with pytest.raises(ConfigError, match="total returns int"):
            run(fetch, outlast.node(retries=2)(total), outlast.node(total))

    def test_what_can_fit_is_trusted(self, run):
        def optional(number) -> "int | None":
            return number

        def real(number: float) -> object:
            return number

        def unresolved(value: "NoSuchName") -> "NoSuchName":  # noqa: F821  # cannot be resolved, on purpose
            return value

        assert run(fetch, total, optional, show) == "<3>"
        assert run(fetch, total, real, show) == "<3>"
        assert run(fetch, total, unresolved, show) == "<3>"

    def test_what_is_no_pipeline_is_refused(self, run):
        with pytest.raises(ConfigError, match="at least one step"):
            run()
        with pytest.raises(ConfigError, match="3 is not a valid step"):
            run(fetch, 3)


class TestTrace:
    def test_steps_attempts_times_and_outcomes(self, run, clock):
        calls = []

        @outlast.node(retries=5)
        def load():
            calls.append(1)
            if len(calls) < 3:
                raise NetworkError("x")
            return [1]

        @outlast.node(retries=2)
        def gives_up(numbers):
            raise NetworkError("x")

        trace = Trace()
        with pytest.raises(NetworkError):
            run(load, gives_up, total, trace=trace)
        assert [(each.name.rpartition(".")[2], each.attempts, each.seconds, each.outcome) for each in trace.steps] == [
            ("load", 3, 2, "ok"),
            ("gives_up", 2, 1, "failed"),
        ]
        assert "3 attempts, 2 s" in str(trace)

    def test_a_fallback_is_told(self, run):
        trace = Trace()
        run(fetch, total, broken, trace=trace, on_error=lambda error, step: 0)
        assert [(each.name, each.attempts, each.outcome) for each in trace.steps] == [
            ("fetch", 1, "ok"),
            ("total", 1, "ok"),
            ("broken", 1, "fallback"),
        ]

    def test_retries_of_what_a_step_calls_are_not_its_own(self, run):
        helper_calls = []

        @outlast.retry(policy=RetryPolicy(max_attempts=4))
        def helper():
            helper_calls.append(1)
            if len(helper_calls) < 4:
                raise NetworkError("x")

        @outlast.node(retries=3)
        def step():
            helper()
            return 1

        trace = Trace()
        assert run(step, trace=trace) == 1
        assert (len(helper_calls), trace.steps[0].attempts) == (4, 1)


@pytest.mark.parametrize("hook", ["on_step", "on_error"])
def test_a_hook_that_cannot_be_called_is_refused(run, hook):
    with pytest.raises(ConfigError, match=f"{hook} is 3; give a function"):
        run(fetch, **{hook: 3})


def test_types_that_fit_are_not_refused():
    from collections.abc import Awaitable
    from typing import Any

    def anything() -> Any | None:
        return 1

    def whole(value: int) -> int:
        return value

    def later(value: int) -> Awaitable[int]:
        async def answer():
            return value

        return answer()

    class Step:
        value: str = ""

        def __call__(self, value: int) -> int:
            return value

    assert outlast.typed_pipeline(anything, whole, Step()) == 1
    assert asyncio.run(outlast.typed_async_pipeline(anything, whole, later, whole)) == 1


class TestCause:
    """What a handler raises is caused by the error of the step."""

    def failed(self, run, on_error):
        error = NetworkError("down")

        def step():
            raise error

        with pytest.raises(Exception) as raised:  # noqa: PT011  # any
            run(step, on_error=on_error)
        return error, raised.value

    def test_another_error_has_the_error_of_the_step_as_its_cause(self, run):
        def on_error(error, step):
            raise ValueError(step)

        error, raised = self.failed(run, on_error)
        assert type(raised) is ValueError
        assert raised.__cause__ is error

    def test_a_bare_raise_changes_nothing(self, run):
        def on_error(error, step):
            raise  # noqa: PLE0704  # that of the step

        def again(error, step):
            raise error

        for handler in (on_error, again):
            error, raised = self.failed(run, handler)
            assert raised is error
            assert (raised.__cause__, raised.__context__, raised.__suppress_context__) == (None, None, False)

    def test_a_cause_of_its_own_stays(self, run):
        other = KeyError("other")

        def from_other(error, step):
            raise ValueError from other

        def from_none(error, step):
            raise ValueError from None

        assert self.failed(run, from_other)[1].__cause__ is other
        assert self.failed(run, from_none)[1].__cause__ is None

    def test_a_cause_of_the_error_does_not_become_caused_by_it(self, run):
        root = OSError("root")

        def step():
            raise NetworkError("down") from root

        def on_error(error, step):
            raise error.__cause__

        with pytest.raises(OSError, match="root") as raised:
            run(step, on_error=on_error)
        assert raised.value is root
        assert root.__cause__ is None
