"""Classify: an error or a piece of evidence becomes a `Failure`.

The package is also the function: ``outlast.classify(error)`` calls `classify`. Python binds a loaded subpackage to its
name in the package above, so a function of that name would come and go with the order of imports.
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
    """Return the classifier that is used where none is named."""
    return _default


def use_classifier(classifier: Classifier) -> Classifier:
    """Make a classifier the one that is used where none is named, for the whole process.

    Returns:
        The classifier that was used before.

    Raises:
        TypeError: If it is no classifier; a list of rules goes into ``Classifier(rules)``.
    """
    thing: object = classifier
    if not isinstance(thing, Classifier):
        message = f"use_classifier takes a Classifier, not {type(thing).__name__}; put rules into Classifier(rules)"
        raise TypeError(message)
    global _default  # the one process-wide setting of this package
    before, _default = _default, classifier
    return before


def evidence_of(response: object, request: object = None) -> Evidence:
    """Read the response of any of the usual HTTP clients, so that it can be judged without raising anything.

    Args:
        response: An object with `status_code` or `status`, and `headers`. Its body is looked at only where it was
            read already.
        request: What was sent, where the response does not know; it tells whether credentials were.

    Returns:
        The evidence; empty for what is no response.
    """
    return read_response(response, request) or Evidence()


def classify(subject: BaseException | Evidence) -> Failure:
    """Judge an error, or the evidence of a response.

    Args:
        subject: Any exception, or an `Evidence`.

    Returns:
        The failure; `Category.UNKNOWN` where nothing matched.
    """
    return _default.classify(subject)


class _CallablePackage(ModuleType):
    def __call__(self, subject: BaseException | Evidence) -> Failure:
        """Judge an error, or the evidence of a response."""
        return _default.classify(subject)


sys.modules[__name__].__class__ = _CallablePackage
