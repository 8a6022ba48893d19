"""The other libraries, each set up as the retry that is measured: ConnectionError, three attempts, no wait, no log."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import backoff
import opnieuw
import redress
import stamina
import stamina.instrumentation
import tenacity

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["ASYNC", "SYNC", "no_sleep", "no_sleep_async"]

stamina.instrumentation.set_on_retry_hooks([])
logging.getLogger("opnieuw").setLevel(logging.CRITICAL)


def no_sleep(seconds: float) -> None:
    """Stand for time.sleep."""


async def no_sleep_async(seconds: float) -> None:
    """Stand for asyncio.sleep."""


def _redress_class(error: BaseException) -> redress.ErrorClass:
    return redress.ErrorClass.TRANSIENT if isinstance(error, ConnectionError) else redress.ErrorClass.PERMANENT


def _tenacity(sleep: Callable[[float], Any]) -> Callable[..., Any]:
    return tenacity.retry(
        retry=tenacity.retry_if_exception_type(ConnectionError),
        stop=tenacity.stop_after_attempt(3),
        wait=tenacity.wait_none(),
        sleep=sleep,
        reraise=True,
    )


def _redress(sleeper: Callable[[float], Any]) -> Callable[..., Any]:
    return redress.retry(classifier=_redress_class, strategy=lambda _: 0.0, sleeper=sleeper, max_attempts=3)


_EITHER = {
    "stamina": stamina.retry(on=ConnectionError, attempts=3, timeout=None, wait_initial=0, wait_jitter=0),
    "backoff": backoff.on_exception(
        backoff.constant, ConnectionError, max_tries=3, interval=0, jitter=None, logger=None
    ),
    "opnieuw": opnieuw.retry(retry_on_exceptions=(ConnectionError,), max_calls_total=3),
}

SYNC = {"tenacity": _tenacity(no_sleep), **_EITHER, "redress": _redress(no_sleep)}
"""Decorators by library, for functions."""
ASYNC = {"tenacity": _tenacity(no_sleep_async), **_EITHER, "redress": _redress(no_sleep_async)}
"""Decorators by library, for coroutine functions."""
