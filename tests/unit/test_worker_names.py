"""The names by which workers know the classifier (W2)."""

import errno

import pytest

from holdfast import Classifier, Rule, errors
from holdfast.worker import ErrorClassifier


@pytest.mark.parametrize(
    ("error", "category", "retryable"),
    [
        (errors.NetworkError("x"), "network", True),
        (errors.RateLimitError("x"), "rate_limit", True),
        (errors.TemporaryAPIError("x"), "api_temporary", True),
        (errors.DatabaseBusyError("x"), "database_busy", True),
        (errors.InvalidParametersError("x"), "invalid_parameters", False),
        (errors.ResourceNotFoundError("Video not found"), "not_found", False),
        (errors.AuthenticationError("x"), "authentication", False),
        (errors.QuotaExhaustedError("x"), "quota_exhausted", False),
        (errors.ConfigurationError("x"), "configuration", False),
        (Exception("Connection timeout occurred"), "network", True),
        (Exception("404 not found"), "not_found", False),
        (OSError(errno.ENOSPC, "x"), "system", True),
        (Exception("gremlins"), "unknown", False),
    ],
)
def test_judges(error, category, retryable):
    classifier = ErrorClassifier()

    assert classifier.is_retryable(error) is retryable
    assert classifier.get_error_category(error) == category
    assert type(classifier.get_error_category(error)) is str


def test_metadata():
    metadata = ErrorClassifier().get_error_metadata(errors.RateLimitError("token=abc refused", retry_after=0))

    assert metadata["error_type"] == "RateLimitError"
    assert metadata["error_message"] == "token=*** refused"
    assert metadata["category"] == "rate_limit"
    assert metadata["retryable"] is True
    assert metadata["retry_after"] == 0
    assert "retry_after" not in ErrorClassifier().get_error_metadata(ValueError("x"))


def test_may_use_rules_of_its_own():
    classifier = ErrorClassifier(Classifier([Rule(category="api_temporary", text="gremlins")]))

    assert classifier.is_retryable(Exception("gremlins"))
