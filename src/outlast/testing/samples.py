"""One real error for each category: what a program meets when it fails in that way."""

import errno
import os
from collections.abc import Callable

from outlast.classify import classify
from outlast.errors import ConfigError
from outlast.failure import Category

__all__ = ["sample_error"]


def sample_error(category: Category | str, *, retry_after: float | None = None) -> Exception:
    """Return a real error that the classifier judges as this category.

    Args:
        category: Which, as a `Category` or by name.
        retry_after: Seconds that the server asks to wait; for the categories that a server reports.

    Raises:
        ConfigError: If there is no such category, no server reports it, or rules of your own judge the error otherwise.
    """
    wanted = Category.parse(category)
    if retry_after is None:
        error = _SAMPLES[wanted]()
    elif wanted in _STATUSES:
        error = _answer(*_STATUSES[wanted], retry_after)
    else:
        message = f"{wanted} comes from no server that could ask to wait; leave retry_after out, or give an exception"
        raise ConfigError(message)
    found = classify(error)
    if found.category is not wanted:
        message = (
            f"your rules judge {type(error).__name__} ({error}) as {found.category} by {found.rule!r}, and not as "
            f"{wanted}; give the exception that is {wanted} in your program"
        )
        raise ConfigError(message)
    return error


_STATUSES = {
    Category.RATE_LIMIT: (429, "Too Many Requests"),
    Category.API_TEMPORARY: (503, "Service Unavailable"),
    Category.ACCESS_DENIED: (403, "Forbidden"),
    Category.NOT_FOUND: (404, "Not Found"),
    Category.INVALID_PARAMETERS: (400, "Bad Request"),
    Category.AUTHENTICATION: (401, "Unauthorized"),
    Category.QUOTA_EXHAUSTED: (402, "Payment Required"),
}


def _answer(status: int, text: str, retry_after: float | None = None) -> Exception:
    from email.message import Message  # noqa: PLC0415  # costs milliseconds
    from io import BytesIO  # noqa: PLC0415
    from urllib.error import HTTPError  # noqa: PLC0415

    headers = Message()
    if retry_after is not None:
        headers["Retry-After"] = f"{retry_after:g}"
    return HTTPError("https://injected.example/", status, text, headers, BytesIO())


def _system_error(number: int) -> Exception:
    return OSError(number, os.strerror(number))  # Python makes it the right subclass


def _locked() -> Exception:
    from sqlite3 import OperationalError  # noqa: PLC0415

    return OperationalError("database is locked")


def _taken() -> Exception:
    from sqlite3 import IntegrityError  # noqa: PLC0415

    return IntegrityError("UNIQUE constraint failed: injected.id")


def _malformed() -> Exception:
    from json import JSONDecodeError  # noqa: PLC0415

    return JSONDecodeError("Expecting value", "", 0)


def _answering(category: Category) -> Callable[[], Exception]:
    return lambda: _answer(*_STATUSES[category])


_SAMPLES: dict[Category, Callable[[], Exception]] = {
    Category.NETWORK: lambda: _system_error(errno.ECONNRESET),
    Category.DATABASE_BUSY: _locked,
    Category.SYSTEM: lambda: _system_error(errno.ENOSPC),
    Category.CONFIGURATION: lambda: ValueError("unknown url type: 'injected'"),
    Category.INTEGRITY: _taken,
    Category.DATA: _malformed,
    Category.UNKNOWN: lambda: RuntimeError("injected"),
    **{category: _answering(category) for category in _STATUSES},
}
