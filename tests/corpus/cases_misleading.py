"""Errors whose words mislead: settings, names and places that sound like failures, and failures that hardly say so."""

from __future__ import annotations

import subprocess
from functools import partial
from typing import TYPE_CHECKING

from corpus.case import Case, World, caught
from outlast import Category as C

if TYPE_CHECKING:
    from collections.abc import Callable

# Programming errors and bad values, made by really making the mistake where that is possible.
BUGS: dict[str, Callable[[], object]] = {
    "key": lambda: {}["timeout"],
    "key like a limit": lambda: {}["rate_limit"],
    "attribute": lambda: object().timeout,
    "format": "{timeout}".format,
    "index": lambda: ["a"].index("timeout"),
    "whole number": lambda: int("timeout"),
    "fraction": lambda: float("service unavailable"),
    "undefined name": lambda: eval("timeout"),
    "assertion": lambda: (_ for _ in ()).throw(AssertionError("expected 200, got 503")),
}

NOTHING: tuple[str, ...] = (
    "job 7 failed (timeout=30, retries=3)",
    "timeout=30 is deprecated",
    "the word timeout appears in chapter 5",
    "no timeout configured for host a",
    "rate limiting is disabled",
    "X-RateLimit-Limit header was 5000",
    'column "timeout" is of type integer',
    "table rate_limit has no column x",
    "Connection closed normally",
    "cannot open /srv/429/timeout.log",
    "see docs/errors/timeout.md",
    "bad link https://h.example/docs/rate-limit",
    "bad link https://h.example/too-many-requests?timeout=5",
    "unexpected host timeout.example.com",
    "cannot parse address timeout@example.com",
    "exit code 500",
    "タイムアウトはしていません",
)

TELLING: dict[str, tuple[C, bool]] = {
    "timeout must be > 0": (C.INVALID_PARAMETERS, False),
    "the timeout setting must be an integer": (C.INVALID_PARAMETERS, False),
    "Request to https://h/timeout failed with 404": (C.NOT_FOUND, False),
    "POST https://api.x.com/v1/items failed: 503": (C.API_TEMPORARY, True),
    "{'code': 503, 'message': 'backend'}": (C.API_TEMPORARY, True),
    "HTTP503": (C.API_TEMPORARY, True),
    "HTTPステータス503が返されました": (C.API_TEMPORARY, True),
    "503エラーが発生しました": (C.API_TEMPORARY, True),
    "HTTP 404エラー": (C.NOT_FOUND, False),
    "タイムアウトが発生しました": (C.NETWORK, True),
    "リクエスト回数の上限に達しました": (C.RATE_LIMIT, True),
    "rate_limit_exceeded": (C.RATE_LIMIT, True),
    "socket hang up": (C.NETWORK, True),
    "Timeout": (C.NETWORK, True),
    "fetch failed: timeout": (C.NETWORK, True),
    "read timeout": (C.NETWORK, True),
    "504 Gateway Timeout": (C.API_TEMPORARY, True),
    "Disk quota exceeded": (C.SYSTEM, True),
    "can't start new thread": (C.SYSTEM, True),
    "dial tcp: lookup db: no such host": (C.NETWORK, True),
    "x509: certificate has expired or is not yet valid": (C.NETWORK, True),
    "environment variable DATABASE_URL is not set": (C.CONFIGURATION, False),
    "invalid_grant": (C.AUTHENTICATION, False),
    "checksum mismatch": (C.DATA, False),
}

NAMES: dict[str, tuple[C, bool]] = {
    "MissingTimeout": (C.INVALID_PARAMETERS, False),
    "InvalidTimeoutError": (C.INVALID_PARAMETERS, False),
    "TimeoutNotSupported": (C.INVALID_PARAMETERS, False),
    "InvalidRateLimitConfig": (C.INVALID_PARAMETERS, False),
    "NonRetryableError": (C.UNKNOWN, False),
    "RetryableError": (C.API_TEMPORARY, True),
    "NotConnectedError": (C.NETWORK, True),
}


def said(text: str, _: World) -> BaseException:
    return Exception(text)


def mistaken(make: Callable[[], object], _: World) -> BaseException:
    return caught(make)


def named(name: str, _: World) -> BaseException:
    return type(name, (Exception,), {"__module__": "acme.errors"})("boom")


def command_line(_: World) -> BaseException:
    return subprocess.CalledProcessError(1, ["grep", "connection refused", "/var/log/timeout"])


def statement_and_parameters(_: World) -> BaseException:
    import sqlalchemy.exc

    statement = "SELECT timeout FROM jobs WHERE reason = 'rate limit exceeded'"
    return sqlalchemy.exc.DBAPIError(statement, {"q": "connection refused"}, Exception("boom"))


def status_on_a_plain_error(_: World) -> BaseException:
    error = RuntimeError("x")
    error.status_code = 404
    error.__cause__ = TimeoutError()
    return error


CASES: list[Case] = [
    *(Case(f"bug/{name}", partial(mistaken, make), C.UNKNOWN, retryable=False) for name, make in BUGS.items()),
    *(
        Case(f"misleading/{text[:50]}", partial(said, text), C.UNKNOWN, retryable=False, constructed=True)
        for text in NOTHING
    ),
    *(
        Case(f"telling/{text[:50]}", partial(said, text), category, retryable=retryable, constructed=True)
        for text, (category, retryable) in TELLING.items()
    ),
    *(
        Case(f"class-name/{name}", partial(named, name), category, retryable=retryable, constructed=True)
        for name, (category, retryable) in NAMES.items()
    ),
    Case("misleading/a command line", command_line, C.UNKNOWN, retryable=False, constructed=True),
    Case("misleading/a statement", statement_and_parameters, C.UNKNOWN, retryable=False, constructed=True),
    Case("telling/a status on a plain error", status_on_a_plain_error, C.NOT_FOUND, retryable=False, constructed=True),
]
