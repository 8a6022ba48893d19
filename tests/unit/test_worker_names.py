"""The names by which workers know failure handling (W2), and what the seed's classifier got wrong."""

import errno
import socket

import pytest

import outlast
from outlast import Classifier, Rule, errors, worker
from outlast.ports.rows import NewTask
from outlast.worker import ErrorClassifier


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


@pytest.mark.parametrize(
    "error",
    [
        Exception("database is locked"),
        Exception("the read operation timed out"),
        TimeoutError(),
        Exception("HTTP 500"),
        Exception("HTTP 429"),
        Exception("rateLimitExceeded"),
        socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution"),
    ],
)
def test_defect_these_were_not_retried(error):
    assert ErrorClassifier().is_retryable(error)


@pytest.mark.parametrize(
    "text",
    [
        "404 Not Found: timeout parameter missing",
        "Invalid parameter: timeout must be > 0",
        "quota exceeded: rate limit",
    ],
)
def test_defect_these_were_retried(text):
    assert not ErrorClassifier().is_retryable(Exception(text))


def test_defect_a_port_was_taken_for_a_status():
    error = Exception("could not reach db:5404: connection refused")
    assert ErrorClassifier().get_error_category(error) == "network"


def test_the_whole_judgement():
    failure = ErrorClassifier().classify(errors.RateLimitError("x", retry_after=0))
    assert (failure.category, failure.retry_after, failure.exact) == ("rate_limit", 0, True)


def test_the_names_of_the_seed():
    """W2 to W6, C16."""
    assert set(worker.__all__) >= {
        "BaseWorker",
        "ErrorClassifier",
        "ErrorHandler",
        "ExponentialBackoffStrategy",
        "LinearBackoffStrategy",
        "RetryStrategyProtocol",
    }
    for name in ("handle_error", "log_error", "update_task_status", "move_to_dlq"):
        assert callable(getattr(worker.ErrorHandler, name))
    for name in ("claim_task", "process_task", "report_result", "run", "stop"):
        assert callable(getattr(worker.BaseWorker, name))


class TwoMethods:
    """A classifier as the seed's protocol has it."""

    def is_retryable(self, error):
        return isinstance(error, KeyError)

    def get_error_category(self, error):
        return "api_temporary" if isinstance(error, KeyError) else "own name"


class TestTwoMethods:
    def test_it_is_used_by_an_error_classifier(self):
        classifier = ErrorClassifier(TwoMethods())
        assert (classifier.is_retryable(KeyError()), classifier.is_retryable(TimeoutError())) == (True, False)
        assert classifier.get_error_category(KeyError()) == "api_temporary"
        assert classifier.get_error_category(TimeoutError()) == "network", "ours, for a name that we do not know"
        assert classifier.get_error_metadata(KeyError("a"))["rule"] == "TwoMethods"

    def test_it_is_used_by_explain(self):
        explained = outlast.explain(KeyError("a"), classifier=TwoMethods())
        assert (explained.failure.category, explained.failure.retryable) == ("api_temporary", True)

    def test_it_can_be_the_classifier_of_the_process(self):
        before = outlast.use_classifier(TwoMethods())
        try:
            assert outlast.classify(KeyError("token=abc")).retryable
            assert "token=***" in outlast.classify(KeyError("token=abc")).message
            calls = []

            @outlast.retry(max_attempts=3, base_delay=0)
            def call():
                calls.append(1)
                raise KeyError

            with pytest.raises(KeyError):
                call()
            assert len(calls) == 3
            assert outlast.classify(outlast.Evidence(http_status=503)).category == "api_temporary"
        finally:
            outlast.use_classifier(before)

    def test_one_that_raises_is_left_out(self):
        class Broken(TwoMethods):
            def is_retryable(self, error):
                raise ZeroDivisionError

        assert ErrorClassifier(Broken()).get_error_category(TimeoutError()) == "network"

    def test_it_needs_both_methods(self):
        class One:
            def is_retryable(self, error):
                return True

        for accepts in (ErrorClassifier, outlast.use_classifier, lambda it: outlast.explain(KeyError(), classifier=it)):
            with pytest.raises(TypeError, match=r"the classifier is One; give a Classifier .* or an object with the"):
                accepts(One())

    def test_it_is_used_by_an_error_handler(self, caplog):
        app = outlast.App("memory://")
        (task,) = app.store.enqueue([NewTask("scrape", "{}")])
        handler = worker.ErrorHandler(app)
        handler.classifier = TwoMethods()
        handled = handler.handle_error(task.id, KeyError("a"), 1)
        assert (handled["retry"], handled["category"]) == (True, "api_temporary")
        assert (handled["metadata"]["category"], handled["metadata"]["retryable"]) == ("api_temporary", True)
        assert handled["metadata"]["error_type"] == "KeyError"
        handled = handler.handle_error(task.id, TimeoutError(), 2)
        assert (handled["retry"], handled["category"]) == (False, "own name")
        assert "classifier raised" not in caplog.text
        app.close()
