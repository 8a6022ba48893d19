"""What a worker asks about an error."""

from outlast.classify import Classifier, default_classifier

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from outlast.failure import Failure

__all__ = ["ErrorClassifier"]


class ErrorClassifier:
    """Tells workers whether an error is worth another attempt, and what kind it is.

    Args:
        classifier: The judgement to use; by default the process's.
    """

    def __init__(self, classifier: Classifier | None = None) -> None:
        """Keep the classifier."""
        self._classifier = classifier

    def classify(self, error: BaseException) -> "Failure":
        """Return the whole judgement on an error."""
        return self._judge.classify(error)

    def is_retryable(self, error: BaseException) -> bool:
        """Tell whether trying again may help; an unknown error is not retried."""
        return self._judge.classify(error).retryable

    def get_error_category(self, error: BaseException) -> str:
        """Return the name of the error's category, ``"unknown"`` where nothing is known."""
        return self._judge.classify(error).category.value

    def get_error_metadata(self, error: BaseException) -> "dict[str, Any]":
        """Return what is worth keeping of an error: redacted, and ready for JSON."""
        failure = self._judge.classify(error)
        metadata: dict[str, Any] = {
            "error_type": failure.exception_name,
            "error_message": failure.message,
            "category": failure.category.value,
            "retryable": failure.retryable,
            "origin": failure.origin.value,
            "http_status": failure.http_status,
            "code": failure.code,
            "rule": failure.rule,
            "fingerprint": failure.fingerprint,
        }
        if failure.retry_after is not None:
            metadata["retry_after"] = failure.retry_after
        return metadata

    @property
    def _judge(self) -> Classifier:
        return self._classifier or default_classifier()
