"""What an error says of itself: our own exception tree, or attributes any class may carry."""

from outlast import errors
from outlast.failure import Category, Evidence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["read_own"]

_TREE: dict[type[BaseException], Category | None] = {
    errors.NetworkError: Category.NETWORK,
    errors.RateLimitError: Category.RATE_LIMIT,
    errors.TemporaryAPIError: Category.API_TEMPORARY,
    errors.DatabaseBusyError: Category.DATABASE_BUSY,
    errors.ResourceUnavailableError: Category.API_TEMPORARY,
    errors.CoolingDownError: Category.RATE_LIMIT,
    errors.InvalidParametersError: Category.INVALID_PARAMETERS,
    errors.ResourceNotFoundError: Category.NOT_FOUND,
    errors.AuthenticationError: Category.AUTHENTICATION,
    errors.QuotaExhaustedError: Category.QUOTA_EXHAUSTED,
    errors.ConfigurationError: Category.CONFIGURATION,
    errors.ConfigError: Category.CONFIGURATION,
    errors.BodyTooLargeError: Category.DATA,
    errors.ContentError: Category.DATA,
}


_OURS = (errors.WorkerError, errors.OutlastError)
_LONGEST_WAIT = 1e9  # seconds; what is longer is no wait
_BY_NAME: dict[str, Category] = {category.value: category for category in Category}


def read_own(error: BaseException) -> tuple[Category, Evidence] | None:
    """Return what an error says of itself, or None.

    An `outlast_category` that names no category, and a `retry_after` that is no time, say nothing.
    """
    try:
        stated = getattr(error, "outlast_category", None)
    except Exception:  # noqa: BLE001  # a property of the user's
        stated = None
    ours = isinstance(error, _OURS)
    if stated is None and not ours:
        return None
    category = _category(stated) or (_from_tree(type(error)) if ours else None)
    retryable: bool | None = None
    if category is None:
        if not ours:
            return None
        category = Category.UNKNOWN
    if ours and _category(stated) is None:
        retryable = isinstance(error, errors.RetryableError)
    return category, Evidence(retryable=retryable, retry_after=_seconds(error))


def _category(value: object) -> Category | None:
    return _BY_NAME.get(value) if isinstance(value, str) else None


def _from_tree(kind: type[BaseException]) -> Category | None:
    return next((category for each in kind.__mro__ if (category := _TREE.get(each)) is not None), None)


def _seconds(error: BaseException) -> float | None:
    """Read `retry_after` in seconds or as a timedelta."""
    try:
        value: Any = getattr(error, "retry_after", None)
        seconds = value.total_seconds() if hasattr(value, "total_seconds") else value
    except Exception:  # noqa: BLE001  # a property of the user's
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        return None
    return float(seconds) if 0 <= seconds < _LONGEST_WAIT else None
