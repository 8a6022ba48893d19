"""Retries for HTTP clients: transports for httpx and httpx2, an adapter for requests, and fetch functions.

Names are loaded at their first use, so that only the client library in use must be installed.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from outlast.http.fetch import RETRYABLE_EXCEPTIONS as RETRYABLE_EXCEPTIONS
    from outlast.http.fetch import fetch_with_retry as fetch_with_retry
    from outlast.http.fetch import fetch_with_retry_on_403 as fetch_with_retry_on_403
    from outlast.http.fetch import handle_rate_limit as handle_rate_limit
    from outlast.http.fetch import is_403_error as is_403_error
    from outlast.http.fetch import is_persistent_error as is_persistent_error
    from outlast.http.requests import HTTPAdapter as HTTPAdapter
    from outlast.http.settings import Settings as Settings
    from outlast.http.settings import idempotency_key as idempotency_key
    from outlast.http.transport import AsyncRetryTransport as AsyncRetryTransport
    from outlast.http.transport import RetryTransport as RetryTransport

_HOMES = {
    "RETRYABLE_EXCEPTIONS": "fetch",
    "AsyncRetryTransport": "transport",
    "HTTPAdapter": "requests",
    "RetryTransport": "transport",
    "Settings": "settings",
    "fetch_with_retry": "fetch",
    "fetch_with_retry_on_403": "fetch",
    "handle_rate_limit": "fetch",
    "idempotency_key": "settings",
    "is_403_error": "fetch",
    "is_persistent_error": "fetch",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> object:
    """Import a public name on first access."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'outlast.http' has no attribute {name!r}")
    import importlib  # noqa: PLC0415  # also loaded on first use

    value = getattr(importlib.import_module(f"outlast.http.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names, including those that are not imported yet."""
    return sorted({*globals(), *__all__})
