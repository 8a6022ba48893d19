"""Turns an error or a piece of evidence into a `Failure`.

The package is callable: ``outlast.classify(error)`` calls `classify`. Python binds an imported subpackage to its name
in the parent package, so a function with the same name would be replaced, depending on the order of imports.
"""

import sys
from types import ModuleType

from outlast.classify.classifier import (
    Classifier,
    Reading,
    Strength,
    attach_failure,
    classify,
    default_classifier,
    evidence_of,
    failure_of,
    use_classifier,
)
from outlast.classify.retry_after import MAX_RETRY_AFTER_SECONDS, RetryHint, parse_retry_after, rate_limit_hint
from outlast.failure import Evidence, Failure

__all__ = [
    "MAX_RETRY_AFTER_SECONDS",
    "Classifier",
    "Reading",
    "RetryHint",
    "Strength",
    "attach_failure",
    "classify",
    "default_classifier",
    "evidence_of",
    "failure_of",
    "parse_retry_after",
    "rate_limit_hint",
    "use_classifier",
]


class _CallablePackage(ModuleType):
    def __call__(self, subject: BaseException | Evidence) -> Failure:
        """Classify an error, or the evidence of a response."""
        return classify(subject)


_package = _CallablePackage(__name__)
_package.__dict__.update(globals())
sys.modules[__name__] = _package
