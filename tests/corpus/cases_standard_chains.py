"""Errors that stand for others: groups, causes, contexts; our own errors, and classes that say what they are."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING

from corpus.case import Case, World, caught
from outlast import Category as C
from outlast import errors

if TYPE_CHECKING:
    from collections.abc import Callable


class Failed(Exception):  # a name that says nothing, on purpose
    """What a program of one's own raises."""


class Busy(Exception):
    outlast_category = "rate_limit"
    retry_after = 12


class Gone(Exception):
    outlast_category = C.NOT_FOUND


class Odd(Exception):
    outlast_category = "no such category"


class Silent(Exception):
    def __str__(self) -> str:
        raise RuntimeError


class Vendor(errors.RateLimitError):
    """A class of the user's below one of ours."""


def caused(outer: BaseException, cause: BaseException) -> BaseException:
    def fail() -> None:
        raise outer from cause

    return caught(fail)


def interrupted(outer: BaseException, before: BaseException) -> BaseException:
    def fail() -> None:
        try:
            raise before
        except type(before):
            raise outer  # noqa: B904  # the context is the point

    return caught(fail)


def suppressed(outer: BaseException, before: BaseException) -> BaseException:
    def fail() -> None:
        try:
            raise before
        except type(before):
            raise outer from None

    return caught(fail)


def circle() -> BaseException:
    first, second = Failed("first"), Failed("second")
    first.__cause__, second.__cause__ = second, first
    return first


def circle_with_a_reason() -> BaseException:
    first, second = Failed("first"), ConnectionResetError(104, "Connection reset by peer")
    first.__cause__, second.__cause__ = second, first
    return first


def parse() -> BaseException:
    return caught(json.loads, "{")


def refused() -> BaseException:
    import socket

    return caught(socket.create_connection, ("127.0.0.1", 1))


def missing() -> BaseException:
    return caught(open, "/nowhere/at/all")


def group(*members: BaseException) -> BaseException:
    return BaseExceptionGroup("several", members)


# Category, whether to try again, seconds to wait, how.
_TABLE: dict[str, tuple[C, bool, float | None, Callable[[], BaseException]]] = {
    "group/all may heal": (C.NETWORK, True, None, lambda: group(refused(), TimeoutError())),
    "group/a permanent leaf wins": (C.NOT_FOUND, False, None, lambda: group(refused(), missing())),
    "group/an unknown leaf wins": (C.UNKNOWN, False, None, lambda: group(refused(), KeyError("x"))),
    "group/nested": (C.DATA, False, None, lambda: group(refused(), group(TimeoutError(), parse()))),
    "group/with an interrupt": (C.UNKNOWN, False, None, lambda: group(refused(), KeyboardInterrupt())),
    "group/as a cause": (C.NOT_FOUND, False, None, lambda: caused(Failed("x"), group(refused(), missing()))),
    "chain/cause": (C.NETWORK, True, None, lambda: caused(Failed("job 7"), refused())),
    "chain/cause of the cause": (
        C.DATA, False, None,
        lambda: caused(Failed("job 7"), caused(Failed("step 2"), parse())),
    ),
    "chain/own type before the cause": (C.DATA, False, None, lambda: caused(parse(), refused())),
    "chain/our error before the cause": (
        C.NOT_FOUND, False, None,
        lambda: caused(errors.ResourceNotFoundError("x"), refused()),
    ),
    "chain/context": (C.NETWORK, True, None, lambda: interrupted(Failed("job 7"), refused())),
    "chain/context of a KeyError": (C.NETWORK, True, None, lambda: interrupted(KeyError("x"), refused())),
    "chain/suppressed context": (C.UNKNOWN, False, None, lambda: suppressed(Failed("job 7"), refused())),
    "chain/circle": (C.UNKNOWN, False, None, circle),
    "chain/circle with a reason": (C.NETWORK, True, None, circle_with_a_reason),
    "own/NetworkError": (C.NETWORK, True, None, lambda: errors.NetworkError("Timeout")),
    "own/RateLimitError now": (C.RATE_LIMIT, True, 0.0, lambda: errors.RateLimitError("x", retry_after=0)),
    "own/RateLimitError later": (C.RATE_LIMIT, True, 30.0, lambda: errors.RateLimitError("x", retry_after=30)),
    "own/RateLimitError without a time": (C.RATE_LIMIT, True, None, lambda: errors.RateLimitError("x")),
    "own/TemporaryAPIError": (C.API_TEMPORARY, True, None, lambda: errors.TemporaryAPIError("404 not found")),
    "own/DatabaseBusyError": (C.DATABASE_BUSY, True, None, lambda: errors.DatabaseBusyError("x")),
    "own/InvalidParametersError": (C.INVALID_PARAMETERS, False, None, lambda: errors.InvalidParametersError("timeout")),
    "own/ResourceNotFoundError": (C.NOT_FOUND, False, None, lambda: errors.ResourceNotFoundError("timeout")),
    "own/AuthenticationError": (C.AUTHENTICATION, False, None, lambda: errors.AuthenticationError("rate limit")),
    "own/QuotaExhaustedError": (
        C.QUOTA_EXHAUSTED, False, 3600.0,
        lambda: errors.QuotaExhaustedError("x", retry_after=3600),
    ),
    "own/ConfigurationError": (C.CONFIGURATION, False, None, lambda: errors.ConfigurationError("x")),
    "own/ConfigError": (C.CONFIGURATION, False, None, lambda: errors.ConfigError("x")),
    "own/RetryableError": (C.UNKNOWN, True, 5.0, lambda: errors.RetryableError("x", retry_after=5)),
    "own/PermanentError": (C.UNKNOWN, False, None, lambda: errors.PermanentError("x")),
    "own/subclass": (C.RATE_LIMIT, True, 90.0, lambda: Vendor("x", retry_after=timedelta(seconds=90))),  # type: ignore[arg-type]
    "own/says its category": (C.RATE_LIMIT, True, 12.0, lambda: Busy("x")),
    "own/says its category as a member": (C.NOT_FOUND, False, None, lambda: Gone("x")),
    "own/says no category": (C.UNKNOWN, False, None, lambda: Odd("x")),
    "own/says nothing at all": (C.UNKNOWN, False, None, Silent),
    "own/as a cause": (C.RATE_LIMIT, True, 0.0, lambda: caused(Failed("x"), errors.RateLimitError("y", retry_after=0))),
}  # fmt: skip


def _case(name: str, category: C, retryable: bool, wait: float | None, make: Callable[[], BaseException]) -> Case:
    def produce(world: World) -> BaseException:
        return make()

    by_hand = name.startswith("own/")
    return Case(f"standard-{name}", produce, category, retryable, retry_after=wait, constructed=by_hand)


CASES: list[Case] = [_case(name, *row) for name, row in _TABLE.items()]
