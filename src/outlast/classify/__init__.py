"""Turns an error or a piece of evidence into a `Failure`.

The package is callable: ``outlast.classify(error)`` calls `classify`. Python binds an imported subpackage to its name
in the parent package, so a function with the same name would be replaced, depending on the order of imports.
"""

import sys
from types import ModuleType

from outlast.classify.classifier import Classifier, Reading, Strength
from outlast.classify.retry_after import MAX_RETRY_AFTER_SECONDS, RetryHint, parse_retry_after, rate_limit_hint
from outlast.classify.safe_access import read_response
from outlast.failure import Evidence, Failure

__all__ = [
    "MAX_RETRY_AFTER_SECONDS",
    "Classifier",
    "Reading",
    "RetryHint",
    "Strength",
    "classify",
    "default_classifier",
    "evidence_of",
    "parse_retry_after",
    "rate_limit_hint",
    "use_classifier",
]

_default = Classifier()


def default_classifier() -> Classifier:
    """Return the classifier that is used by default."""
    return _default


def use_classifier(classifier: Classifier) -> Classifier:
    """Make a classifier the default for the whole process.

    Returns:
        The classifier that was used before.

    Raises:
        TypeError: If it is not a classifier; put a list of rules into ``Classifier(rules)``.
    """
    thing: object = classifier
    if not isinstance(thing, Classifier):
        message = f"use_classifier takes a Classifier, not {type(thing).__name__}; put rules into Classifier(rules)"
        raise TypeError(message)
    global _default  # the only process-wide setting of this package
    before, _default = _default, classifier
    return before


def evidence_of(response: object, request: object = None) -> Evidence:
    """Read the response of any common HTTP client, so that it can be classified without an exception.

    Args:
        response: An object with `status_code` or `status`, and `headers`. Its body is used only if it was read
            already.
        request: The request, if the response does not have it; it shows whether credentials were sent.

    Returns:
        The evidence; empty if the object is not a response.
    """
    return read_response(response, request) or Evidence()


def classify(subject: BaseException | Evidence) -> Failure:
    """Classify an error, or the evidence of a response.

    Args:
        subject: Any exception, or an `Evidence`.

    Returns:
        The failure; its category is `Category.UNKNOWN` if nothing matched.
    """
    return _default.classify(subject)


class _CallablePackage(ModuleType):
    def __call__(self, subject: BaseException | Evidence) -> Failure:
        """Classify an error, or the evidence of a response."""
        return _default.classify(subject)


sys.modules[__name__].__class__ = _CallablePackage
