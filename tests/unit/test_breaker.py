"""The breaker as a pure state machine: what opens it, what closes it, and whose news it believes."""

from datetime import timedelta

import pytest

import outlast
from outlast import RETRYABLE, BreakerSettings
from outlast.decide.breaker import Breaker
from outlast.errors import ConfigError, NetworkError, PermanentError


def breaker(**settings):
    return Breaker(BreakerSettings(**settings))


def fail(machine, now=0.0, times=1):
    for _ in range(times):
        machine.failed(now, machine.permit(now))


def succeed(machine, now=0.0, times=1, seconds=0.0):
    for _ in range(times):
        machine.succeeded(now, machine.permit(now), seconds)


class TestOpening:
    def test_failures_in_a_row(self):
        machine = breaker(consecutive=3)
        fail(machine, times=2)
        succeed(machine)
        fail(machine, times=2)
        assert machine.closed
        fail(machine)
        assert (machine.state, machine.reason, machine.until) == ("open", "3 failures in a row", 30)

    def test_a_share_of_the_last_calls(self):
        machine = breaker(consecutive=None, failure_rate=0.5, window=4)
        fail(machine, times=2)
        succeed(machine)
        assert machine.closed, "not judged before the window is full"
        succeed(machine)
        assert machine.closed, "a success opens nothing"
        fail(machine)
        assert (machine.state, machine.reason) == ("open", "50% failures in the last 4 calls")

    def test_old_calls_leave_the_window(self):
        machine = breaker(consecutive=None, failure_rate=0.75, window=4)
        fail(machine, times=2)
        succeed(machine, times=4)
        fail(machine, times=2)
        assert machine.closed
        fail(machine)
        assert not machine.closed

    def test_slow_calls_are_failures(self):
        machine = breaker(consecutive=2, slow_call=1.0)
        succeed(machine, seconds=0.99)
        succeed(machine, seconds=1.0)
        succeed(machine, seconds=2.0)
        assert (machine.state, machine.reason) == ("open", "2 slow calls in a row")

    def test_by_hand(self):
        machine = breaker()
        machine.open(0.0, seconds=5)
        assert (machine.state, machine.reason, machine.permit(4.9)) == ("open", "by hand", 0)
        machine.close()
        assert machine.permit(0.0)
        machine.open(0.0, seconds=float("inf"))
        assert not machine.permit(1e300)
        machine.open(0.0, seconds=timedelta(minutes=1))
        assert machine.until == 60

    @pytest.mark.parametrize("seconds", [float("nan"), -1, "5", True, 10**400])
    def test_by_hand_for_what_is_no_time_is_refused_and_changes_nothing(self, seconds):
        machine = breaker()
        with pytest.raises(ConfigError, match=r"seconds is .*; give seconds or a timedelta, 0 or more"):
            machine.open(0.0, seconds=seconds)
        assert machine.closed
        guard = outlast.Resource("by hand", breaker=BreakerSettings())
        with pytest.raises(ConfigError, match="seconds is "):
            guard.open(seconds)
        with guard:
            pass


class TestHalfOpen:
    def opened(self, **settings):
        machine = breaker(consecutive=1, open_for=10, **settings)
        fail(machine)
        return machine

    def test_it_opens_for_a_while(self):
        machine = self.opened()
        assert [bool(machine.permit(now)) for now in (0, 9.99, 10, 10)] == [False, False, True, False]
        assert machine.state == "half_open"

    def test_all_probes_have_to_succeed(self):
        machine = self.opened(probes=3)
        permits = [machine.permit(10) for _ in range(5)]
        assert [bool(each) for each in permits] == [True, True, True, False, False]
        for permit in permits[:2]:
            machine.succeeded(11, permit)
        assert machine.state == "half_open"
        assert not machine.permit(11), "a probe that succeeded makes no room for another"
        machine.succeeded(11, permits[2])
        assert machine.closed

    def test_one_that_fails_opens_it_anew(self):
        machine = self.opened(probes=2)
        first, second = machine.permit(10), machine.permit(10)
        machine.failed(12, first)
        assert (machine.state, machine.until, machine.reason) == ("open", 22, "a probe failed (failures)")
        machine.succeeded(13, second)
        assert machine.state == "open"

    def test_pitfall_31_a_permit_that_is_given_back_can_be_had_again(self):
        machine = self.opened()
        machine.withdrawn(machine.permit(10))
        assert machine.permit(10)
        assert not machine.permit(10)

    def test_pitfall_30_news_from_before_it_opened_changes_nothing(self):
        machine = breaker(consecutive=1, open_for=10)
        old = [machine.permit(0) for _ in range(4)]
        machine.failed(0, old[0])
        probe = machine.permit(10)
        machine.succeeded(11, old[1])
        machine.withdrawn(old[2])
        assert machine.state == "half_open"
        assert not machine.permit(11), "an old call's end frees no probe"
        machine.failed(11, old[3])
        assert machine.state == "half_open"
        machine.succeeded(11, probe)
        assert machine.closed
        machine.failed(12, old[3])
        assert machine.closed

    def test_closing_begins_afresh(self):
        machine = breaker(consecutive=2, open_for=10)
        fail(machine, times=2)
        succeed(machine, now=10)
        fail(machine, now=11)
        assert machine.closed


class TestSettings:
    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"consecutive": 0}, "consecutive is 0; give a whole number, 1 or more"),
            ({"consecutive": True}, "consecutive is True"),
            ({"window": 0}, "window is 0"),
            ({"window": None}, "window is None"),
            ({"probes": 0}, "probes is 0"),
            ({"probes": None}, "probes is None"),
            ({"failure_rate": 0}, "failure_rate is 0; give a share above 0 and up to 1"),
            ({"failure_rate": 1.1}, "failure_rate is 1.1"),
            ({"failure_rate": float("nan")}, "failure_rate is nan"),
            ({"failure_rate": "x"}, "failure_rate is 'x'; give a share above 0 and up to 1"),
            ({"failure_rate": True}, "failure_rate is True"),
            ({"consecutive": None}, "otherwise it would never open"),
            ({"open_for": -1}, "open_for is -1"),
            ({"slow_call": float("inf")}, "slow_call is inf"),
            ({"counts": "x"}, "'x' is not a category"),
        ],
    )
    def test_bad_ones_are_refused(self, settings, message):
        with pytest.raises(ConfigError, match=message):
            BreakerSettings(**settings)

    def test_pitfall_19_zero_is_honoured(self):
        machine = breaker(consecutive=1, open_for=0, slow_call=0)
        succeed(machine, seconds=0)
        assert machine.state == "open"
        assert machine.permit(0.0)

    def test_which_errors_are_failures(self):
        assert BreakerSettings().is_failure(NetworkError("x"))
        assert not BreakerSettings().is_failure(ValueError())  # a bug says nothing of the resource
        assert not BreakerSettings().is_failure(PermanentError())
        assert BreakerSettings(counts=None).is_failure(ValueError())
        assert not BreakerSettings(counts=(ConnectionError,)).is_failure(ValueError())
        assert BreakerSettings(counts=RETRYABLE).is_failure(NetworkError("x"))
        assert not BreakerSettings(counts=RETRYABLE).is_failure(ValueError())

    def test_they_are_values(self):
        assert BreakerSettings() == BreakerSettings(consecutive=5)
        assert BreakerSettings().replace(probes=3).probes == 3
