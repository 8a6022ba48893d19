"""One exception object raised by calls that have nothing to do with each other (pitfall 11 the other way round).

Some libraries, and many programs, make an error once and raise it whenever it fits. What a call left on it does not end
the retries of a later one. Concurrent calls are not told apart: one of them may take the report of another for that of
a retry inside it, and give up early. It never makes more calls than its policy allows, and always raises the error.
"""

import asyncio
import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor

import anyio
import pytest

import outlast
from outlast import RetryPolicy
from outlast.errors import NetworkError
from outlast.testing import failing

THREE = RetryPolicy(max_attempts=3, base_delay=0, retry_on=Exception)


@pytest.fixture
def kept():
    return NetworkError("made once, raised by everybody")


def raising(error, calls):
    def fetch():
        calls.append(1)
        raise error

    return fetch


def fine():
    return "fine"


def in_a_thread(function):
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()


def exhausted_elsewhere(error):
    """Give up on an error in another thread, as a call of somebody else's does."""

    def run():
        with pytest.raises(type(error)):
            outlast.call(raising(error, []), policy=THREE)

    in_a_thread(run)


SETTINGS = [{}, {"deadline": 60}, {"resource": "shared-errors"}]


@pytest.mark.parametrize("elsewhere", [False, True])
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_a_call_that_gave_up_before_stops_nothing(kept, settings, elsewhere):
    calls, policy = [], THREE.replace(**settings)
    if elsewhere:
        exhausted_elsewhere(kept)
    else:
        with pytest.raises(NetworkError):
            outlast.call(raising(kept, []), policy=policy)
    with pytest.raises(NetworkError) as caught:
        outlast.call(raising(kept, calls), policy=policy)
    assert caught.value is kept
    assert len(calls) == 3
    assert kept.__outlast__.reason == "exhausted"


def test_nor_in_a_block(kept):
    exhausted_elsewhere(kept)
    numbers = []
    with pytest.raises(NetworkError):
        for attempt in outlast.attempts(THREE):
            with attempt:
                numbers.append(attempt.number)
                raise kept
    assert numbers == [1, 2, 3]


def test_nor_where_it_is_the_cause(kept):
    exhausted_elsewhere(kept)
    calls = []

    @outlast.retry(policy=THREE)
    def fetch():
        calls.append(1)
        raise ValueError("wrapped") from kept

    with pytest.raises(ValueError, match="wrapped"):
        fetch()
    assert len(calls) == 3


class TestConcurrentCalls:
    """Another call gives up on the same object while this one runs."""

    @pytest.mark.parametrize("settings", SETTINGS, ids=str)
    def test_in_another_thread(self, kept, settings):
        calls = []

        @outlast.retry(policy=THREE.replace(**settings))
        def fetch():
            calls.append(1)
            exhausted_elsewhere(kept)
            raise kept

        with pytest.raises(NetworkError) as caught:
            fetch()
        assert caught.value is kept
        assert 1 <= len(calls) <= 3
        assert kept.__outlast__.reason == "exhausted"

    def test_in_a_block(self, kept):
        numbers = []
        with pytest.raises(NetworkError) as caught:
            for attempt in outlast.attempts(THREE):
                with attempt:
                    numbers.append(attempt.number)
                    exhausted_elsewhere(kept)
                    raise kept
        assert caught.value is kept
        assert numbers == [1, 2, 3][: len(numbers)]

    def test_where_it_is_the_cause(self, kept):
        calls = []

        @outlast.retry(policy=THREE)
        def fetch():
            calls.append(1)
            exhausted_elsewhere(kept)
            raise ValueError("wrapped") from kept

        with pytest.raises(ValueError, match="wrapped") as caught:
            fetch()
        assert caught.value.__cause__ is kept
        assert 1 <= len(calls) <= 3

    @pytest.mark.anyio
    @pytest.mark.parametrize("settings", [{}, {"deadline": 60}], ids=str)
    async def test_tasks_that_fail_at_the_same_time(self, kept, settings):
        calls, raised = {}, []

        @outlast.retry(policy=THREE.replace(**settings))
        async def fetch(number):
            calls[number] = calls.get(number, 0) + 1
            for _ in range(number):
                await anyio.lowlevel.checkpoint()
            raise kept

        async def one(number):
            with pytest.raises(NetworkError) as caught:
                await fetch(number)
            raised.append(caught.value is kept)

        async with anyio.create_task_group() as group:
            for number in range(8):
                group.start_soon(one, number)
        assert raised == [True] * 8
        assert calls[0] == 3, "the first to give up was disturbed by nobody"
        assert all(1 <= calls[number] <= 3 for number in range(8))

    def test_an_error_of_its_own_is_not_concerned(self, kept):
        """Calls that share a function, but raise a new error each time, are retried as the policy says."""
        calls = []

        @outlast.retry(policy=THREE)
        def fetch():
            calls.append(1)
            exhausted_elsewhere(kept)
            raise NetworkError("new")

        with pytest.raises(NetworkError, match="new"):
            fetch()
        assert len(calls) == 3


def test_threads_that_fail_at_the_same_time_are_each_retried(kept):
    calls, together = [], threading.Barrier(8)

    @outlast.retry(policy=THREE)
    def fetch():
        calls.append(1)
        together.wait(5)
        raise kept

    def one():
        with pytest.raises(NetworkError):
            fetch()

    threads = [threading.Thread(target=one) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calls) == 24


class TestRaisedLast:
    """Another call met the shared error only in its last attempt."""

    def retried_beside(self, error, elsewhere):
        calls = []

        @outlast.retry(policy=THREE)
        def fetch():
            calls.append(1)
            in_a_thread(elsewhere)
            raise error

        with pytest.raises(NetworkError) as caught:
            fetch()
        assert caught.value is error
        return len(calls)

    def test_it_was_given_up_on_before(self, kept):
        def elsewhere():
            with pytest.raises(NetworkError):
                outlast.call(failing(fine, [kept]), policy=THREE.replace(max_attempts=1))
            with pytest.raises(NetworkError):
                outlast.call(failing(fine, [ValueError("first"), kept]), policy=THREE.replace(max_attempts=2))

        assert 1 <= self.retried_beside(kept, elsewhere) <= 3

    def test_another_call_that_made_a_single_attempt_stops_nothing(self, kept):
        def elsewhere():
            with pytest.raises(NetworkError):
                outlast.call(failing(fine, [kept]), policy=THREE.replace(max_attempts=1))

        assert self.retried_beside(kept, elsewhere) == 3

    def test_another_thread_raised_it_meanwhile(self, kept):
        def raised_again(error):
            with contextlib.suppress(NetworkError):
                raise kept.with_traceback(None)
            return True

        def elsewhere():
            policy = THREE.replace(max_attempts=2, retry_on=raised_again)
            with pytest.raises(NetworkError):
                outlast.call(failing(fine, [ValueError("first"), kept]), policy=policy)

        assert 1 <= self.retried_beside(kept, elsewhere) <= 3


class TestNested:
    """Pitfall 11 holds for such errors too."""

    def test_pitfall_11_three_by_three_makes_three_calls(self, kept):
        calls = []
        inner = outlast.retry(policy=THREE)(raising(kept, calls))
        for _ in range(2):
            calls.clear()
            with pytest.raises(NetworkError):
                outlast.call(inner, policy=THREE)
            assert len(calls) == 3

    def test_pitfall_11_also_where_another_thread_gave_up_meanwhile(self, kept):
        calls = []
        inner = outlast.retry(policy=THREE)(raising(kept, calls))

        def outer():
            exhausted_elsewhere(kept)
            inner()

        with pytest.raises(NetworkError):
            outlast.call(outer, policy=THREE)
        assert len(calls) == 3

    def test_pitfall_11_on_a_later_attempt(self, kept):
        calls, answers = [], [ValueError("first")]
        inner = outlast.retry(policy=THREE)(raising(kept, calls))

        def outer():
            if answers:
                raise answers.pop()
            inner()

        with pytest.raises(NetworkError):
            outlast.call(outer, policy=THREE)
        assert len(calls) == 3

    def test_pitfall_11_in_a_block(self, kept):
        calls = []
        inner = outlast.retry(policy=THREE)(raising(kept, calls))
        with pytest.raises(NetworkError):
            for attempt in outlast.attempts(THREE):
                with attempt:
                    inner()
        assert len(calls) == 3

    def test_pitfall_11_a_block_within_a_call(self, kept):
        calls = []

        def outer():
            for attempt in outlast.attempts(THREE):
                with attempt:
                    raising(kept, calls)()

        with pytest.raises(NetworkError):
            outlast.call(outer, policy=THREE)
        assert len(calls) == 3

    @pytest.mark.parametrize("settings", [{}, {"deadline": 60}, {"resource": "shared-errors"}])
    def test_pitfall_11_with_coroutines(self, kept, settings):
        calls = []

        @outlast.retry(policy=THREE.replace(**settings))
        async def inner():
            calls.append(1)
            await asyncio.sleep(0)
            raise kept

        @outlast.retry(policy=THREE.replace(**settings))
        async def outer():
            await inner()

        with pytest.raises(NetworkError):
            asyncio.run(outer())
        assert len(calls) == 3

    def test_pitfall_11_in_tasks_and_threads_of_its_own(self):
        """Their errors are new each time, so that what is on them can only come from within."""
        calls = []

        @outlast.retry(policy=THREE)
        async def inner():
            calls.append(1)
            raise NetworkError("x")

        @outlast.retry(policy=THREE)
        def blocking():
            calls.append(1)
            raise NetworkError("x")

        @outlast.retry(policy=THREE)
        async def gathering():
            await asyncio.gather(inner())

        @outlast.retry(policy=THREE)
        async def in_thread():
            await asyncio.to_thread(blocking)

        for outer in (gathering, in_thread):
            calls.clear()
            with pytest.raises(NetworkError):
                asyncio.run(outer())
            assert len(calls) == 3

    def test_pitfall_11_in_a_plain_pool_of_threads(self):
        """It has no context of the caller; three by three makes three calls all the same."""
        calls = []

        @outlast.retry(policy=THREE)
        def inner():
            calls.append(1)
            raise NetworkError("x")

        with ThreadPoolExecutor(1) as pool:

            @outlast.retry(policy=THREE)
            def outer():
                pool.submit(inner).result()

            @outlast.retry(policy=THREE)
            async def outer_async():
                await asyncio.wrap_future(pool.submit(inner))

            with pytest.raises(NetworkError) as caught:
                outer()
            assert len(calls) == 3
            assert len(outlast.report_of(caught.value).attempts) == 3
            calls.clear()
            with pytest.raises(NetworkError):
                for attempt in outlast.attempts(THREE):
                    with attempt:
                        pool.submit(inner).result()
            assert len(calls) == 3
            calls.clear()
            with pytest.raises(NetworkError):
                asyncio.run(outer_async())
            assert len(calls) == 3


def test_the_report_of_such_an_error_is_like_any_other(kept):
    with pytest.raises(NetworkError):
        outlast.call(raising(kept, []), policy=THREE)
    report = outlast.report_of(kept)
    assert (len(report.attempts), report.reason) == (3, "exhausted")
    assert report == report.replace()
    assert "within" not in repr(report)
