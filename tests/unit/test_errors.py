"""The tree of our exceptions (W1)."""

import pickle

import pytest

from outlast import classify, errors

RETRYABLE = [errors.NetworkError, errors.RateLimitError, errors.TemporaryAPIError, errors.DatabaseBusyError]
PERMANENT = [
    errors.InvalidParametersError,
    errors.ResourceNotFoundError,
    errors.AuthenticationError,
    errors.QuotaExhaustedError,
    errors.ConfigurationError,
    errors.BodyTooLargeError,
    errors.ContentError,
]


@pytest.mark.parametrize("kind", RETRYABLE)
def test_retryable_ones_carry_a_hint(kind):
    error = kind("slow", retry_after=30.0)

    assert isinstance(error, errors.RetryableError)
    assert isinstance(error, errors.WorkerError)
    assert error.retry_after == 30.0
    assert str(error) == "slow"
    assert kind("slow").retry_after is None


@pytest.mark.parametrize("kind", PERMANENT)
def test_permanent_ones_are_worker_errors(kind):
    assert isinstance(kind("no"), errors.PermanentError)
    assert isinstance(kind("no"), errors.WorkerError)


@pytest.mark.parametrize("kind", [errors.WorkerError, errors.ConfigError, *RETRYABLE, *PERMANENT])
def test_survive_pickling(kind):
    error = kind("text")
    if hasattr(error, "retry_after"):
        error.retry_after = 7.5

    copy = pickle.loads(pickle.dumps(error))

    assert type(copy) is kind
    assert copy.args == error.args
    assert getattr(copy, "retry_after", None) == getattr(error, "retry_after", None)


@pytest.mark.parametrize(
    ("kind", "category", "retryable"),
    [
        (errors.NetworkError, "network", True),
        (errors.RateLimitError, "rate_limit", True),
        (errors.TemporaryAPIError, "api_temporary", True),
        (errors.DatabaseBusyError, "database_busy", True),
        (errors.InvalidParametersError, "invalid_parameters", False),
        (errors.ResourceNotFoundError, "not_found", False),
        (errors.AuthenticationError, "authentication", False),
        (errors.QuotaExhaustedError, "quota_exhausted", False),
        (errors.ConfigurationError, "configuration", False),
        (errors.BodyTooLargeError, "data", False),
        (errors.ContentError, "data", False),
        (errors.RetryableError, "unknown", True),
        (errors.PermanentError, "unknown", False),
        (errors.WorkerError, "unknown", False),
    ],
)
def test_are_taken_at_their_word(kind, category, retryable):
    failure = classify(kind("404 not found, timed out, anything"))

    assert (failure.category, failure.retryable) == (category, retryable)


def test_a_subclass_inherits_the_verdict():
    class FeedGone(errors.ResourceNotFoundError):
        pass

    assert classify(FeedGone("x")).category == "not_found"


@pytest.mark.parametrize(
    ("given", "kept"), [(0, 0.0), (0.5, 0.5), (7200, 7200.0), (-1, None), (float("nan"), None), (True, None)]
)
def test_the_hint_of_our_own_errors_is_an_instruction_used_as_it_is(given, kept):
    failure = classify(errors.RateLimitError("x", retry_after=given))

    assert failure.retry_after == kept
    assert failure.capped is False
