"""What judging an error costs, against raising and catching it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx

from benchmarks.measure import Result, interleaved, per_call, ratio
from outlast import Evidence, classify

if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDS = 25
RAISE = "raise and catch"
REQUEST = httpx.Request("GET", "https://api.example.com/v1/items/17")


def _raised(error_class: type[Exception], *args: object) -> Exception:
    try:
        raise error_class(*args)
    except Exception as error:
        return error


def _judging(error: Exception | Evidence) -> Callable[[], object]:
    return lambda: classify(error)


def _raising() -> None:
    try:
        raise ConnectionResetError(104, "Connection reset by peer")
    except OSError:
        pass


def run() -> list[Result]:
    """Return the results."""
    refused = _raised(httpx.ConnectError, "[Errno 111] Connection refused")
    status = httpx.HTTPStatusError("Server error '503'", request=REQUEST, response=httpx.Response(503, request=REQUEST))
    text = _raised(Exception, "Connection to the upstream timed out after 30 s")
    typed = {
        "classify OSError": _raised(ConnectionResetError, 104, "Connection reset by peer"),
        "classify TimeoutError": _raised(TimeoutError),
        "classify httpx.ReadTimeout": _raised(httpx.ReadTimeout, "timed out"),
    }
    shown = {"classify httpx.ConnectError": refused, "classify httpx.HTTPStatusError 503": status}
    worded = {
        "classify by text": text,
        "classify an unknown error": _raised(ValueError, "could not find the needle in 17 haystacks"),
    }
    contenders = {RAISE: per_call(_raising, 20_000)}
    for name, error in {**typed, **shown, **worded}.items():
        contenders[name] = per_call(_judging(error), 2_000)
    times = interleaved(contenders, ROUNDS)
    return [
        *(ratio(times, name, RAISE, 25) for name in typed),
        *(ratio(times, name, RAISE, None) for name in shown),
        *(ratio(times, name, RAISE, 150) for name in worded),
    ]
