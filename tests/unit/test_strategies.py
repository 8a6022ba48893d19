"""The worker's strategies (W3): the pinned numbers, and jitter that never exceeds the cap."""

import random

import pytest

from outlast.errors import ConfigError, NetworkError
from outlast.testing import fake_clock
from outlast.worker import ExponentialBackoffStrategy, LinearBackoffStrategy, RetryStrategyProtocol


def test_exponential_starts_at_twice_the_base():
    """C1: the worker's exponent is the attempt itself."""
    strategy = ExponentialBackoffStrategy(max_retries=5, base_delay=1.0, jitter=False)
    assert [strategy.get_retry_delay(n) for n in (1, 2, 3, 4, 5)] == [2.0, 4.0, 8.0, 16.0, 32.0]


def test_exponential_defaults():
    strategy = ExponentialBackoffStrategy()
    assert (strategy.max_retries, strategy.base_delay, strategy.max_delay, strategy.jitter) == (5, 1.0, 300.0, True)


def test_exponential_cap():
    assert ExponentialBackoffStrategy(max_delay=10.0, jitter=False).get_retry_delay(10) == 10.0
    assert ExponentialBackoffStrategy(jitter=False).get_retry_delay(2000) == 300.0


def test_jitter_is_a_tenth_more_or_less():
    for chance, expected in ((0.0, 1.8), (0.5, 2.0), (1.0, 2.2)):
        with fake_clock(chance=chance):
            assert ExponentialBackoffStrategy().get_retry_delay(1) == pytest.approx(expected)


def test_jitter_never_exceeds_the_cap(monkeypatch):
    """A defect of the seed: 300 s and a tenth were 330 s."""
    monkeypatch.setattr("outlast.clock.chance", random.Random(1).random)
    waits = [ExponentialBackoffStrategy().get_retry_delay(20) for _ in range(500)]
    assert max(waits) <= 300.0
    assert min(waits) >= 270.0
    assert len(set(waits)) > 400


def test_linear():
    strategy = LinearBackoffStrategy()
    assert (strategy.max_retries, strategy.base_delay) == (3, 5.0)
    assert [strategy.get_retry_delay(n) for n in (1, 2, 3)] == [5.0, 10.0, 15.0]


@pytest.mark.parametrize("kind", [ExponentialBackoffStrategy, LinearBackoffStrategy])
def test_max_retries_counts_calls(kind):
    strategy = kind(max_retries=3)
    assert [strategy.should_retry(NetworkError("x"), n) for n in (1, 2, 3)] == [True, True, False]
    assert [kind(max_retries=0).should_retry(NetworkError("x"), n) for n in (1, 2)] == [False, False]
    assert strategy.increment_attempt(1) == 2


@pytest.mark.parametrize("kind", [ExponentialBackoffStrategy, LinearBackoffStrategy])
def test_both_fit_the_protocol_and_so_may_others(kind):
    class Stubborn:
        def should_retry(self, error, attempt):
            return True

        def get_retry_delay(self, attempt):
            return 0.0

    assert isinstance(kind(), RetryStrategyProtocol)
    assert isinstance(Stubborn(), RetryStrategyProtocol)
    assert not isinstance(object(), RetryStrategyProtocol)


@pytest.mark.parametrize("settings", [{"max_retries": -1}, {"base_delay": -1}, {"base_delay": float("nan")}])
def test_bad_settings_are_refused(settings):
    for kind in (ExponentialBackoffStrategy, LinearBackoffStrategy):
        with pytest.raises(ConfigError):
            kind(**settings)


def test_pitfall_19_a_base_of_zero_stays_zero():
    assert ExponentialBackoffStrategy(base_delay=0).get_retry_delay(3) == 0
    assert LinearBackoffStrategy(base_delay=0).get_retry_delay(3) == 0
