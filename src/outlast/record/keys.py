"""The keys under which a failure stands in every log record."""

from outlast.failure import Failure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["failure_keys"]


def failure_keys(failure: Failure) -> "dict[str, Any]":
    """Return what a log record tells of a failure; ``message`` is logging's own, so its text is `failure_message`."""
    return {
        "error_category": failure.category.value,
        "origin": failure.origin.value,
        "http_status": failure.http_status,
        "exception_name": failure.exception_name,
        "failure_message": failure.message,
    }
