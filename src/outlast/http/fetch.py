"""Fetch functions for monitors and collectors: with retries, server hints, and special handling of 403.

The client libraries are imported only when they are used.
"""

import importlib
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, ParamSpec, TypeVar

from outlast import clock
from outlast.classify import attach_failure, classify, evidence_of, failure_of, parse_retry_after
from outlast.classify.safe_access import header_of, safe_getattr
from outlast.decide.policy import RetryPolicy
from outlast.decide.presets import preset
from outlast.decide.source_health import COUNTED_CATEGORIES
from outlast.failure import Category, Failure
from outlast.http.request_attempts import is_retried
from outlast.http.settings import redacted_url
from outlast.http.transport import HTTPX_LIBRARIES, adapter_of
from outlast.run.loops import name_of
from outlast.run.retry import check_policy, is_coroutine_function, wrap
from outlast.units import format_seconds

TYPE_CHECKING = False
if TYPE_CHECKING:
    RETRYABLE_EXCEPTIONS: tuple[type[Exception], ...]
    """Timeouts, failed or broken connections and incomplete responses: those of httpx and httpx2 that are installed."""


P = ParamSpec("P")
R = TypeVar("R")

_RETRYABLE_NAMES = (
    "TimeoutException",
    "ConnectError",
    "ReadError",
    "WriteError",
    "CloseError",
    "RemoteProtocolError",
    "ProxyError",
)
_FORBIDDEN, _SERVER_ERRORS, _FAILING = 403, 500, 400
_RETRYABLE_STATUSES = frozenset({408, 425, 429})
log = logging.getLogger("outlast.http")


def _is_transient(error: BaseException) -> bool:
    """Return whether a fetch is retried: no response, a server error, or a response that asks for a later attempt."""
    failure = failure_of(error)
    status = failure.http_status
    if status is None or failure.category is Category.RATE_LIMIT:
        return failure.retryable
    return status >= _SERVER_ERRORS or (status in _RETRYABLE_STATUSES and failure.retryable)


FETCH_POLICY = preset("blog").replace(
    retry_on=_is_transient,
    jitter="none",
    overrides={Category.RATE_LIMIT: {"base_delay": 60.0, "max_delay": 300.0}},
)
"""3 calls, 2 s and 4 s between them (then 8 s …, at most 30 s); after a rate limit
without a hint, 60 s and more."""


def __getattr__(name: str) -> object:
    """Collect the exceptions at their first use."""
    if name != "RETRYABLE_EXCEPTIONS":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: list[type[Exception]] = []
    for library in HTTPX_LIBRARIES:
        with suppress(ImportError):
            module = importlib.import_module(library)
            found += [getattr(module, each) for each in _RETRYABLE_NAMES]
    globals()[name] = tuple(found)
    return globals()[name]


async def fetch_with_retry(client: Any, url: str, *, policy: RetryPolicy | None = None, **request: Any) -> Any:
    """Fetch a URL with retries.

    Timeouts, failed connections, statuses of 500 and above, 408, 425 and rate limits (429, or another status with signs
    of a rate limit) are retried, after the wait that the server asks for, if any. Any other response, such as 404 or
    200, is returned at once. A warning is logged before each wait. The event loop is never blocked.

    If the transport of the client retries by itself, its final error is raised without further retries.

    Args:
        client: An ``AsyncClient`` of httpx or httpx2.
        url: The URL.
        policy: The policy; by default `FETCH_POLICY`.
        request: Further arguments of ``client.get``, such as ``headers``.

    Returns:
        The response, read completely.

    Raises:
        Exception: The error of the last attempt, with the others as notes; for a response that was given up, its
            ``HTTPStatusError``.
    """
    chosen = FETCH_POLICY if policy is None else check_policy(policy)
    if chosen.retry_on is None:
        chosen = chosen.replace(retry_on=_is_transient)

    async def attempt() -> Any:
        with _classified_errors():
            response = await client.get(url, **request)
        if response.status_code < _FAILING:
            return response
        error = adapter_of(response).status_error(response.request, response)
        failure = failure_of(error)
        attach_failure(error, failure)
        try:
            if not is_retried(chosen, error, failure):
                return response
            await response.aclose()
            raise error
        finally:
            del error  # an error whose traceback holds this frame would refer to itself

    attempt.__qualname__ = f"GET {redacted_url(url)}"  # as logs and events name it
    return await wrap(attempt, chosen, None)()


@contextmanager
def _classified_errors() -> Iterator[None]:
    """Attach the failure to an error that the block raises, so that the loop and our predicates classify it once."""
    try:
        yield
    except Exception as error:
        attach_failure(error, failure_of(error))
        raise


async def handle_rate_limit(response: Any, *, default: int = 60) -> float:
    """Wait as long as the Retry-After of a response asks, at most an hour, without blocking the event loop.

    It only waits; the caller repeats the request. `fetch_with_retry` does both.

    Args:
        response: A response of any client.
        default: Seconds to wait if the response has no valid Retry-After.

    Returns:
        The seconds waited.
    """
    headers = safe_getattr(response, "headers")
    asked, date = header_of(headers, "retry-after"), header_of(headers, "date")
    seconds = float(parse_retry_after(asked, default, date=date, now=clock.now))
    url = redacted_url(safe_getattr(response, "url"))
    keys = {"url": url, "retry_after_seconds": seconds}
    log.warning("%s asks to wait, waiting for %s", url, format_seconds(seconds), extra=keys)
    await clock.sleep_async(seconds)
    return seconds


def is_403_error(error: BaseException | None) -> bool:
    """Return whether an error is a response with status 403, by its type and status. Its text is not used."""
    return error is not None and _is_403(classify(error))


def is_persistent_error(error: BaseException | None) -> bool:
    """Return whether an error counts against a source: 400, 401, 403, 404, 410, or invalid data.

    Rate limits, server errors, timeouts and failed connections do not count, because the source is not the cause.
    """
    return error is not None and classify(error).category in COUNTED_CATEGORIES


def fetch_with_retry_on_403(fetch: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call a fetch function and retry it after 1, 2 and 4 s while the response is 403: up to 4 requests and 7 s.

    The 403 may be raised or returned. A 403 that shows a rate limit or a quota, or that refuses credentials, is not
    retried. Any other result or error is passed on at once.

    Args:
        fetch: A function or coroutine function. For a coroutine function, await the result of this call.
        args: The arguments of `fetch`.
        kwargs: The keyword arguments of `fetch`.

    Returns:
        The result of `fetch`; after four times 403, the last response.

    Raises:
        Exception: The error of `fetch`; after four times 403, the last error, with the others as notes.
    """
    awaited = is_coroutine_function(fetch)
    result: Any = _fetch_async(fetch, None, args, kwargs) if awaited else _fetch(fetch, args, kwargs)
    answer: R = result
    return answer


def _fetch(fetch: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    before: Any = None

    def attempt() -> Any:
        nonlocal before
        with suppress(Exception):  # it is discarded, or this is the first attempt
            before.close()
        with _classified_errors():
            before = fetch(*args, **kwargs)
        if hasattr(type(before), "__await__"):  # a function that returns coroutines
            return _PendingResult(before)
        _raise_if_denied(before)
        return before

    attempt.__qualname__ = name_of(fetch)
    try:
        result = wrap(attempt, _ON_403, None)()
    except _Response403Error as denied:
        return denied.response
    return _fetch_async(fetch, result.first, args, kwargs) if isinstance(result, _PendingResult) else result


async def _fetch_async(fetch: Callable[..., Any], first: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    before: Any = None

    async def attempt() -> Any:
        nonlocal before, first
        with suppress(Exception):  # it is discarded, or this is the first attempt
            closing = before.aclose() if hasattr(before, "aclose") else before.close()
            if hasattr(type(closing), "__await__"):
                await closing
        with _classified_errors():
            awaitable, first = fetch(*args, **kwargs) if first is None else first, None
            before = await awaitable
        _raise_if_denied(before)
        return before

    attempt.__qualname__ = name_of(fetch)
    try:
        return await wrap(attempt, _ON_403, None)()
    except _Response403Error as denied:
        return denied.response


class _PendingResult:
    """A result that must be awaited."""

    def __init__(self, first: Any) -> None:
        self.first = first


class _Response403Error(Exception):
    """A response with status 403 that was returned, not raised."""

    def __init__(self, response: Any, failure: Failure) -> None:
        super().__init__("HTTP 403")
        self.response = response
        attach_failure(self, failure.replace(exception_name=type(self).__name__))


def _raise_if_denied(result: Any) -> None:
    evidence = evidence_of(result)
    if evidence.http_status != _FORBIDDEN:
        return
    failure = classify(evidence)
    if failure.category is Category.ACCESS_DENIED:
        raise _Response403Error(result, failure)


def _is_denied(error: BaseException) -> bool:
    if isinstance(error, _Response403Error):
        return True
    failure = failure_of(error)
    return failure.category is Category.ACCESS_DENIED and _is_403(failure)


def _is_403(failure: Failure) -> bool:
    return failure.http_status == _FORBIDDEN and "text: " not in failure.rule


_ON_403 = RetryPolicy(max_attempts=4, retry_on=_is_denied, backoff="exponential", base_delay=1.0, max_delay=4.0)
