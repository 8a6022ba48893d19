"""Retries inside retries do not multiply (pitfall 11)."""

from datetime import UTC, datetime

import pytest

import outlast
from outlast import RetryPolicy
from outlast.decide.decision import AlertKind
from outlast.errors import NetworkError
from outlast.observe.alert_delivery import ChannelQueue, send_queues
from outlast.ports.source_rows import Alert
from outlast.testing import fake_clock

THREE = RetryPolicy(max_attempts=3)


@pytest.fixture(autouse=True)
def clock():
    with fake_clock() as clock:
        yield clock


def counting(error, calls):
    def fetch():
        calls.append(1)
        raise error

    return fetch


class TestNested:
    """Pitfall 11."""

    def nested(self, calls, outer=THREE, inner=THREE, wrap=None):
        @outlast.retry(policy=inner)
        def fetch():
            calls.append(1)
            raise NetworkError("x")

        @outlast.retry(policy=outer)
        def collect():
            try:
                return fetch()
            except NetworkError as error:
                if wrap is None:
                    raise
                raise wrap from error

        return collect

    def test_pitfall_11_three_by_three_makes_three_calls(self):
        calls = []
        with pytest.raises(NetworkError) as caught:
            self.nested(calls)()
        assert len(calls) == 3
        assert caught.value.__outlast__.reason == "exhausted"
        assert len([note for note in caught.value.__notes__ if "gave up" in note]) == 1

    def test_pitfall_11_also_where_the_error_is_wrapped(self):
        calls = []
        with pytest.raises(RuntimeError) as caught:
            self.nested(calls, wrap=RuntimeError("collecting failed"))()
        assert len(calls) == 3
        assert caught.value.__outlast__.reason == "nested"

    def test_pitfall_11_the_guard_can_be_lifted(self):
        calls = []
        with pytest.raises(NetworkError):
            self.nested(calls, outer=THREE.replace(nested=True))()
        assert len(calls) == 9

    def test_an_inner_retry_that_tried_once_multiplies_nothing(self):
        for inner in (RetryPolicy(max_attempts=1), RetryPolicy(retry_on=(KeyError,))):
            calls = []
            with pytest.raises(NetworkError):
                self.nested(calls, inner=inner)()
            assert len(calls) == 3

    def test_one_instance_raised_by_two_calls_is_retried_both_times(self):
        error, calls = NetworkError("the same"), []
        fetch = outlast.retry(policy=THREE)(counting(error, calls))
        for total in (3, 6):
            with pytest.raises(NetworkError):
                fetch()
            assert len(calls) == total
        assert len(error.__notes__) == 3


def test_pitfall_11_an_error_raised_in_the_handler_of_the_inner_one():
    calls = []

    @outlast.node(retries=3)
    def inner():
        calls.append(1)
        raise ConnectionError("x")

    @outlast.node(retries=3)
    def outer():
        try:
            inner()
        except ConnectionError:
            raise ValueError("could not")  # noqa: B904  # on purpose

    with fake_clock(), pytest.raises(ValueError, match="could not"):
        outer()
    assert len(calls) == 3


def test_pitfall_11_an_inner_retry_within_a_group():
    calls = []

    @outlast.node(retries=3)
    def inner():
        calls.append(1)
        raise ConnectionError("x")

    @outlast.node(retries=3)
    def outer():
        try:
            inner()
        except ConnectionError as error:
            group = ExceptionGroup("several", [error])
        raise group

    with fake_clock(), pytest.raises(ExceptionGroup):
        outer()
    assert len(calls) == 3


def test_an_alert_channel_that_retries_by_itself_is_not_retried_as_well(clock):
    calls = []

    class RetryingChannel:
        name = "channel"

        def send(self, message):
            outlast.call(counting(NetworkError("down"), calls), policy=THREE)

    now = datetime.now(UTC)
    alert = Alert(1, "source:1", AlertKind.FIRST, "error", "title", "", 1, 1, (), None, None, now)
    queue = ChannelQueue(RetryingChannel(), [alert], THREE, clock.monotonic() + 600)
    send_queues([queue], lambda: False)
    assert (len(calls), list(queue.failed)) == (3, [1])
