"""The tasks and jobs of the stage: each fails in a way of its own."""

from __future__ import annotations

import errno
import json
import sqlite3
from typing import TYPE_CHECKING, Any, NoReturn

import outlast
from browser import texts
from outlast import errors

if TYPE_CHECKING:
    from collections.abc import Callable

_QUICK = outlast.RetryPolicy(max_attempts=3, base_delay=0.0, max_delay=0.0, jitter="none")
_PATIENT = outlast.RetryPolicy(max_attempts=4, backoff="exponential", base_delay=90.0, max_delay=900.0, jitter="none")
_SLOW = outlast.RetryPolicy(max_attempts=5, backoff="exponential", base_delay=900.0, max_delay=7200.0, jitter="none")
_ONCE = outlast.RetryPolicy(max_attempts=1)


def _raise(error: BaseException) -> NoReturn:
    raise error


def _deep(depth: int) -> None:
    """Raise a long text from far below."""
    if depth:
        _deep(depth - 1) if depth % 2 else _deeper(depth)
    raise ValueError(f"{texts.JAPANESE} {texts.MARKUP} " * 60)


def _deeper(depth: int) -> None:
    _deep(depth - 1)


def _duplicate() -> None:
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE prices (item INTEGER PRIMARY KEY)")
    connection.execute("INSERT INTO prices VALUES (1)")
    connection.execute("INSERT INTO prices VALUES (1)")


_TROUBLES: dict[str, Callable[[], object]] = {
    "timeout": lambda: _raise(TimeoutError("the warehouse did not answer within 30 s")),
    "unreadable": lambda: b"\xff\xfe".decode("ascii"),
    "denied": lambda: _raise(errors.AuthenticationError("the key of the warehouse was refused")),
    "invalid": lambda: _raise(errors.InvalidParametersError("batch size 0 is not allowed")),
    "quota": lambda: _raise(errors.QuotaExhaustedError("the allowance of this month is used up")),
    "configuration": lambda: _raise(errors.ConfigurationError("WAREHOUSE_URL is not set")),
    "integrity": _duplicate,
    "data": lambda: json.loads("<html>not json"),
    "busy": lambda: _raise(errors.DatabaseBusyError("deadlock detected")),
    "shelf": lambda: _raise(errors.InvalidParametersError("the shelf is empty")),
    "bug": lambda: {}["price"],
    "nasty": lambda: _raise(RuntimeError(f"{texts.NASTY} {texts.ERROR_WITH_SECRET}")),
    "long": lambda: _raise(ValueError(texts.LONG)),
    "heavy": lambda: _deep(40),
    "japanese": lambda: _raise(ValueError(texts.JAPANESE)),
}


def define(app: outlast.App, *, tame: bool) -> None:
    """Add the tasks and jobs to an app; tame ones have names and texts such as people give."""

    @app.task(policy=_PATIENT)
    def fetch_page(url: str) -> None:
        if url.endswith("/gone"):
            raise errors.ResourceNotFoundError("404 Not Found: the page is gone")
        if url.endswith("/broken"):
            raise errors.TemporaryAPIError("503 Service Unavailable")
        if url.endswith("/refused"):
            raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")

    @app.task(queue="mail", policy=_QUICK)
    def send_mail(to: str) -> None:
        if to.startswith("bad"):
            raise errors.TemporaryAPIError("451 try again later")

    @app.periodic(every=3600, name="refresh_prices")
    def refresh_prices() -> None: ...

    @app.periodic(every=86_400, name="send_report" if tame else texts.SCRIPT + " periodic", policy=_ONCE)
    def send_report() -> None:
        raise TimeoutError("the mail server did not answer within 30 s")

    _others(app, tame=tame)
    _jobs(app)
    if not tame:
        _hostile(app)


def _others(app: outlast.App, *, tame: bool) -> None:
    @app.task(policy=_ONCE)
    def import_rows(trouble: str, batch: int = 0) -> None:
        _TROUBLES[trouble]()

    @app.task(policy=_SLOW)
    def patient(url: str) -> None:
        raise errors.TemporaryAPIError(texts.ERROR_WITH_SECRET)

    @app.task(resource="api.weather.test" if tame else texts.RESOURCE, policy=_SLOW)
    def weather(city: str) -> None:
        raise errors.RateLimitError("429 Too Many Requests", retry_after=1200)


def _hostile(app: outlast.App) -> None:
    @app.task(name=texts.SCRIPT, queue=texts.QUEUE, policy=_ONCE)
    def hostile(text: str, api_key: str, more: str = "") -> None:
        _TROUBLES["nasty"]()

    @app.job(texts.SCRIPT, max_failure_rate=0.5, policy=_ONCE)
    def hostile_job(context: Any, target: str) -> None:
        raise RuntimeError(texts.NASTY)


def _jobs(app: outlast.App) -> None:
    @app.job("prices", entity="item", max_failure_rate=0.2, policy=_QUICK)
    def prices(context: Any, target: str) -> None:
        if target.startswith("gone"):
            raise errors.ResourceNotFoundError("404 Not Found: the item is gone")
        if target.startswith("late"):
            raise TimeoutError("no answer within 30 s")
        if target.startswith("skip"):
            raise errors.SkipTarget("nothing to do")
        if target.startswith("stop"):
            raise errors.AuthenticationError("401 Unauthorized: the key was refused")
