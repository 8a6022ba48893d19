"""The sync attempt loop: pitfalls 2-20, each by its number. Nothing here waits on a real clock."""

import contextlib
import contextvars
import gc
import logging
import pickle
import threading
import weakref

import pytest

import outlast
from outlast import RETRYABLE, Category, RetryPolicy
from outlast.errors import NetworkError
from outlast.testing import failing, fake_clock

THREE = RetryPolicy(max_attempts=3)


@pytest.fixture(autouse=True)
def clock():
    with fake_clock() as clock:
        yield clock


def counting(error, calls):
    def fetch(*args, **kwargs):
        calls.append(args)
        raise error

    return fetch


@pytest.mark.parametrize(
    "retry_on", [None, (BaseException,), BaseException, lambda error: True, set(Category), RETRYABLE]
)
@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_pitfall_2_what_is_no_exception_means_one_call(retry_on, stop, clock):
    calls = []
    with pytest.raises(stop):
        outlast.call(counting(stop, calls), policy=THREE.replace(retry_on=retry_on))
    assert len(calls) == 1
    assert clock.waits == []


def test_pitfall_2_also_on_a_later_attempt(clock):
    answers = [NetworkError("x"), KeyboardInterrupt()]

    def fetch():
        raise answers.pop(0)

    with pytest.raises(KeyboardInterrupt):
        outlast.call(fetch, policy=RetryPolicy(max_attempts=9))
    assert clock.waits == [1]


def test_pitfall_3_fifty_threads_count_for_themselves():
    @outlast.retry(policy=RetryPolicy(max_attempts=60, base_delay=0))
    def fetch(failures, seen):
        seen.append(outlast.current_attempt().number)
        if len(seen) <= failures:
            raise NetworkError("x")
        return len(seen)

    results = {}
    threads = [threading.Thread(target=lambda n=n: results.update({n: fetch(n, [])})) for n in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {n: n + 1 for n in range(50)}


def test_pitfall_4_a_bare_retry_is_bounded(clock):
    calls = []
    with pytest.raises(NetworkError):
        outlast.retry(counting(NetworkError("x"), calls))()
    assert len(calls) == 5
    assert clock.waits == [0.5, 1, 2, 4]

    def slow():
        clock.advance(40)
        raise NetworkError("x")

    with pytest.raises(NetworkError) as caught:
        outlast.retry(slow)()
    assert (len(caught.value.__outlast__.attempts), caught.value.__outlast__.reason) == (2, "deadline")


class TestDeadline:
    policy = RetryPolicy(max_attempts=10, base_delay=4, deadline=10)

    def test_pitfall_5_no_attempt_starts_and_no_wait_lasts_beyond_it(self, clock):
        begun = clock.monotonic()
        starts = []

        def fetch():
            starts.append(clock.monotonic() - begun)
            raise NetworkError("x")

        with pytest.raises(NetworkError) as caught:
            outlast.call(fetch, policy=self.policy)
        assert starts == [0, 4, 8]
        assert caught.value.__outlast__.reason == "deadline"
        assert caught.value.__outlast__.elapsed == 8

    def test_pitfall_5_a_long_first_attempt_counts(self, clock):
        def fetch():
            clock.advance(7)
            raise NetworkError("x")

        with pytest.raises(NetworkError) as caught:
            outlast.call(fetch, policy=self.policy)
        assert clock.waits == []
        assert (caught.value.__outlast__.reason, caught.value.__outlast__.elapsed) == ("deadline", 7)

    def test_pitfall_5_a_wait_that_ends_at_the_deadline_is_not_begun(self, clock):
        with pytest.raises(NetworkError):
            outlast.call(counting(NetworkError("x"), []), policy=self.policy.replace(deadline=4))
        assert clock.waits == []

    def test_pitfall_5_a_wait_that_took_too_long_ends_the_call(self, clock, monkeypatch):
        monkeypatch.setattr("outlast.clock.sleep", lambda seconds: clock.advance(60))
        calls = []
        with pytest.raises(NetworkError) as caught:
            outlast.call(counting(NetworkError("x"), calls), policy=self.policy)
        report = caught.value.__outlast__
        assert len(calls) == len(report.attempts) == 1
        assert report.reason == "deadline"

    def test_pitfall_5_the_callee_can_read_what_is_left(self, clock):
        left = []

        def fetch():
            clock.advance(1)
            left.append(outlast.current_attempt().time_left)
            raise NetworkError("x")

        with pytest.raises(NetworkError):
            outlast.call(fetch, policy=self.policy)
        assert left == [9, 4]

    def test_pitfall_6_the_attempts_own_time_is_the_shorter_of_two(self, clock):
        left = []

        def fetch():
            left.append(outlast.current_attempt().time_left)
            raise NetworkError("x")

        with pytest.raises(NetworkError):
            outlast.call(fetch, policy=self.policy.replace(attempt_timeout=3))
        assert left == [3, 3, 2]
        left.clear()
        with pytest.raises(NetworkError):
            outlast.call(fetch, policy=THREE.replace(attempt_timeout=3))
        assert left == [3, 3, 3]


def test_pitfall_7_a_jumping_wall_clock_changes_nothing(clock):
    def fetch():
        clock.jump(3600 if len(clock.waits) % 2 else -3600)
        raise NetworkError("x")

    with pytest.raises(NetworkError) as caught:
        outlast.call(fetch, policy=RetryPolicy(max_attempts=9, base_delay=2, deadline=7))
    assert clock.waits == [2, 2, 2]
    assert caught.value.__outlast__.elapsed == 6


def test_pitfall_10_interleaved_calls_get_the_same_schedule(clock):
    policy = RetryPolicy(max_attempts=5, backoff="exponential")
    one, other = outlast.attempts(policy), outlast.attempts(policy)
    for _ in range(4):
        for attempts in (one, other):
            with next(attempts):
                raise NetworkError("x")
    assert clock.waits == [1, 1, 2, 2, 4, 4]


class TestTheErrorRaised:
    def test_pitfall_13_it_is_the_original_with_its_attempts(self):
        answers = [NetworkError("first"), TimeoutError("second"), last := NetworkError("third")]

        def fetch():
            raise answers.pop(0)

        with pytest.raises(NetworkError) as caught:
            outlast.call(fetch, policy=RetryPolicy(max_attempts=3, backoff="exponential"))
        assert caught.value is last
        report = outlast.report_of(last)
        assert report is last.__outlast__
        assert [(each.number, each.exception_name, each.message, each.waited) for each in report.attempts] == [
            (1, "NetworkError", "first", 1),
            (2, "TimeoutError", "second", 2),
            (3, "NetworkError", "third", None),
        ]
        assert (report.elapsed, report.reason, report.retry_at) == (3, "exhausted", None)
        assert last.__notes__ == [
            "outlast: attempt 1: NetworkError: first, then waited 1 s",
            "outlast: attempt 2: TimeoutError: second, then waited 2 s",
            "outlast: gave up after 3 attempts in 3 s: exhausted",
        ]
        assert last.__context__ is None

    def test_pitfall_13_it_survives_pickling(self):
        with pytest.raises(NetworkError) as caught:
            outlast.call(counting(NetworkError("x", retry_after=2), []), policy=THREE)
        twin = pickle.loads(pickle.dumps(caught.value))
        assert twin.__outlast__ == caught.value.__outlast__
        assert twin.__notes__ == caught.value.__notes__
        assert twin.retry_after == 2

    def test_pitfall_13_secrets_stay_out_of_the_notes(self):
        with pytest.raises(NetworkError) as caught:
            outlast.call(counting(NetworkError("https://me:hunter2@host/ refused"), []), policy=THREE)
        assert "hunter2" not in "".join(caught.value.__notes__)

    def test_pitfall_14_a_ring_of_causes_and_a_group(self):
        one, other = NetworkError("one"), ValueError("other")
        one.__cause__, other.__cause__ = other, one
        calls = []
        with pytest.raises(NetworkError):
            outlast.call(counting(one, calls), policy=THREE.replace(retry_on=RETRYABLE))
        assert len(calls) == 3
        for leaves, expected in (
            ([NetworkError("x")], 3),
            ([NetworkError("x"), outlast.errors.PermanentError("x")], 1),
        ):
            calls.clear()
            with pytest.raises(ExceptionGroup):
                outlast.call(counting(ExceptionGroup("g", leaves), calls), policy=THREE.replace(retry_on=RETRYABLE))
            assert len(calls) == expected

    def test_an_error_that_takes_no_attributes_is_raised_all_the_same(self):
        class Locked(Exception):
            def __setattr__(self, name, value):
                raise TypeError("no")

        calls = []
        with pytest.raises(Locked):
            outlast.call(counting(Locked(), calls), policy=THREE.replace(retry_on=Exception))
        assert len(calls) == 3

    def test_it_refers_to_nothing_that_refers_to_it(self):
        """An error kept alive by its own traceback keeps the arguments of the call alive too."""

        class Body:
            pass

        def fetch(body):
            raise NetworkError("x")

        gc.collect()
        gc.disable()
        try:
            for policy in (
                THREE,
                RetryPolicy(max_attempts=1),
                THREE.replace(deadline=99),
                THREE.replace(resource="gc"),
            ):
                body = Body()
                gone = weakref.ref(body)
                with contextlib.suppress(NetworkError):
                    outlast.call(fetch, body, policy=policy)
                del body
                assert gone() is None, policy
        finally:
            gc.enable()


def test_pitfall_17_context_variables_are_seen_and_attempts_never_overlap():
    tenant = contextvars.ContextVar("tenant")
    seen, running = [], []

    def fetch():
        assert not running
        running.append(1)
        seen.append(tenant.get())
        running.pop()
        raise NetworkError("x")

    tenant.set("acme")
    with pytest.raises(NetworkError):
        outlast.call(fetch, policy=THREE.replace(deadline=60))
    assert seen == ["acme"] * 3


class TestHooks:
    """Pitfall 18."""

    def test_pitfall_18_a_subscriber_that_raises_is_logged(self, caplog):
        def broken(event):
            raise RuntimeError("subscriber")

        stop = outlast.subscribe(broken)
        try:
            with pytest.raises(NetworkError) as caught:
                outlast.call(counting(NetworkError("x"), []), policy=THREE)
        finally:
            stop()
        assert caught.value.__context__ is None
        assert "a subscriber failed on AttemptFailed" in caplog.text

    def test_pitfall_18_a_log_handler_that_raises(self):
        class Broken(logging.Handler):
            def handle(self, record):
                raise RuntimeError("handler")

        handler = Broken()
        logging.getLogger("outlast").addHandler(handler)
        try:
            with pytest.raises(NetworkError):
                outlast.call(counting(NetworkError("x"), []), policy=THREE)
        finally:
            logging.getLogger("outlast").removeHandler(handler)

    @pytest.mark.parametrize(
        "broken", [{"retry_on": lambda error: 1 / 0}, {"backoff": lambda n: 1 / 0}, {"backoff": lambda n: -1}]
    )
    def test_pitfall_18_a_predicate_or_backoff_that_raises(self, broken, caplog):
        calls = []
        with pytest.raises(NetworkError) as caught:
            outlast.call(counting(NetworkError("x"), calls), policy=RetryPolicy(**broken))
        assert len(calls) == 1
        assert caught.value.__outlast__.reason == "broken"
        assert "failed, and its answer is not used" in caplog.text


def test_pitfall_19_falsy_settings_are_honoured(clock):
    calls = []
    with pytest.raises(NetworkError):
        outlast.call(counting(NetworkError("x"), calls), policy=RetryPolicy(retry_on=()))
    assert len(calls) == 1
    with pytest.raises(NetworkError):
        outlast.retry(base_delay=0, jitter=0)(counting(NetworkError("x"), calls))()
    assert clock.waits == []
    with pytest.raises(NetworkError) as caught:
        outlast.call(counting(NetworkError("x"), calls), policy=THREE.replace(deadline=0))
    assert caught.value.__outlast__.reason == "deadline"


def test_pitfall_20_arguments_are_never_logged(caplog):
    caplog.set_level(logging.DEBUG)
    seen = []
    stop = outlast.subscribe(seen.append)
    try:
        with pytest.raises(NetworkError):
            outlast.call(counting(NetworkError("x"), []), "s3cret-argument", key="other-secret", policy=THREE)
    finally:
        stop()
    told = "".join(
        f"{record.getMessage()} {vars(record)}" for record in caplog.records if "traceback" not in record.msg
    )
    assert "s3cret-argument" not in told + repr(seen)
    assert "other-secret" not in told + repr(seen)


def test_the_original_error_survives_a_deadline_that_a_slow_subscriber_overran():
    unsubscribe = outlast.subscribe(lambda event: clock.advance(1))
    try:
        with fake_clock() as clock, pytest.raises(ConnectionError):
            outlast.call(
                failing(lambda: 1, [ConnectionError("x")] * 9),
                policy=outlast.RetryPolicy(max_attempts=9, base_delay=0, deadline=0.5),
            )
    finally:
        unsubscribe()


def test_pitfall_18_an_error_that_raises_whatever_it_is_asked():
    class Hostile(Exception):
        def __getattr__(self, name):
            raise RuntimeError(name)

    calls, error = [], Hostile("x")
    for retry_on, most in ((None, 1), (outlast.RETRYABLE, 1), (Exception, 3)):
        calls.clear()
        with pytest.raises(Hostile):
            outlast.call(counting(error, calls), policy=outlast.RetryPolicy(base_delay=0, retry_on=retry_on))
        assert len(calls) == most
