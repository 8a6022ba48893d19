"""What a retry costs: a success, two failures before it, the log, the breaker, and what a million calls leave behind.

Everything is compared with the wrapper that one would write by hand. The peers get the same exception types, the same
three attempts, no wait and no log; sleeping is replaced by nothing for all of them, as a sleep of zero costs more than
any of the libraries.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import json
import logging
import statistics
import threading
import time
import tracemalloc
from dataclasses import replace
from itertools import cycle
from typing import TYPE_CHECKING
from unittest import mock

import outlast
from benchmarks import peers
from benchmarks.measure import Result, added, interleaved, per_call, ratio

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    Function = Callable[..., Any]

ROUNDS = 40
THREADS = 16
MILLION = 1_000_000
LEFT_BEHIND = 4096
"""Bytes that a million calls may leave: room for a cache that fills once, far below one byte per call."""

BY_HAND = "by hand"
TYPES = "outlast.retry, types"
BARE = "outlast.retry, bare"
TIMEOUT = "by hand, asyncio.timeout"
CLASSIFIER = "outlast.retry, classifier"
BREAKER = "outlast.retry, types, breaker"
BARE_RESOURCE = "outlast.retry, types, resource"
LIMITED = "outlast.retry, types, rate"
LOGGED = ", log on"
RECORDS = "two log records"

_LOG = logging.getLogger("outlast.retry")
_RESOURCE = "benchmark"
_SLOWER = ("tenacity", "stamina", "backoff", "redress")
_real_sleep = asyncio.sleep


def run() -> list[Result]:
    """Return the results."""
    outlast.resource(_RESOURCE, breaker=outlast.BreakerSettings())
    with _no_sleep(), _log_level(logging.CRITICAL):
        return [
            *_success(),
            *_success_async(),
            *_rate_limits(),
            *_failures(),
            *_failures_async(),
            *_logging(),
            *_threads(),
            _memory(),
        ]


def _success() -> list[Result]:
    """A call that succeeds at once."""
    ours = {BY_HAND: by_hand, TYPES: _types(), BARE: outlast.retry, BREAKER: _types(resource=_RESOURCE)}
    contenders = {name: per_call(_calling(wrap(_fine)), 10_000) for name, wrap in ours.items()}
    contenders |= {name: per_call(_calling(wrap(_fine)), 1_000) for name, wrap in peers.SYNC.items()}
    times = interleaved(contenders, ROUNDS)
    return _named("success", [
        ratio(times, TYPES, BY_HAND, 3),
        ratio(times, BARE, BY_HAND, 3.5),
        ratio(times, BREAKER, BY_HAND, 8),
        *_slower_peers(times, TYPES, peers.SYNC),
    ])  # fmt: skip


def _success_async() -> list[Result]:
    """A coroutine that succeeds at once, and one that suspends once; the peers have no deadline."""
    ours = {
        BY_HAND: by_hand_async,
        TIMEOUT: by_hand_with_timeout,
        TYPES: _types(),
        BARE: outlast.retry,
        BREAKER: _types(resource=_RESOURCE),
    }
    with asyncio.Runner() as runner:
        contenders = {name: _awaiting(runner, wrap(_fine_async), 10_000) for name, wrap in ours.items()}
        contenders |= {name: _awaiting(runner, wrap(_fine_async), 1_000) for name, wrap in peers.ASYNC.items()}
        at_once = interleaved(contenders, ROUNDS)
        suspending = {
            name: _awaiting(runner, ours[name](_suspending), 2_000) for name in (BY_HAND, TIMEOUT, TYPES, BARE)
        }
        once = interleaved(suspending, ROUNDS)
    return [
        *_named("success, async", [
            ratio(at_once, TYPES, BY_HAND, 2.2),
            ratio(at_once, BARE, BY_HAND, 8),
            ratio(at_once, BARE, TIMEOUT, 0.75),
            ratio(at_once, BREAKER, BY_HAND, 8),
            *_slower_peers(at_once, TYPES, peers.ASYNC),
        ]),
        *_named("success, suspending once", [
            ratio(once, TYPES, BY_HAND, None),
            ratio(once, BARE, BY_HAND, 1.9),
            ratio(once, BARE, TIMEOUT, 0.75),
        ]),
    ]  # fmt: skip


def _rate_limits() -> list[Result]:
    """What a rate limit adds to a call that need not wait, in microseconds."""
    outlast.resource(BARE_RESOURCE)
    outlast.resource(LIMITED, rate=100_000)
    resources = (BARE_RESOURCE, LIMITED)
    contenders = {name: per_call(_calling(_types(resource=name)(_fine)), 2_000) for name in resources}
    with asyncio.Runner() as runner:
        contenders |= {
            f"{name}, async": _awaiting(runner, _types(resource=name)(_fine_async), 2_000) for name in resources
        }
        times = interleaved({name: _rested(run) for name, run in contenders.items()}, ROUNDS)
    results = []
    for suffix in ("", ", async"):
        more = [a - b for a, b in zip(times[LIMITED + suffix], times[BARE_RESOURCE + suffix], strict=True)]
        extra = statistics.median(more)
        results.append(Result(f"success{suffix}: a rate limit adds", extra * 1e6, "no limit", 2, extra, unit="µs"))
    return results


def _rested(run: Callable[[], float]) -> Callable[[], float]:
    """Return a contender that begins after a pause in which a rate limit allows all its calls."""

    def rest_and_run() -> float:
        threading.Event().wait(0.025)
        return run()

    return rest_and_run


def _slower_peers(times: dict[str, list[float]], ours: str, names: Iterable[str]) -> list[Result]:
    """Compare peers with ours; those that are retry libraries like ours have to be slower."""
    return [
        replace(ratio(times, name, ours, 1.0 if name.startswith(_SLOWER) else None), at_least=True) for name in names
    ]


def _failures() -> list[Result]:
    """Two failures, then a success, with no wait between them."""
    ours = {BY_HAND: by_hand, TYPES: _types(), CLASSIFIER: _types(retry_on=outlast.RETRYABLE)}
    contenders = {name: per_call(wrap(_failing_twice()), 2_000) for name, wrap in ours.items()}
    contenders |= {name: per_call(wrap(_failing_twice()), 300) for name, wrap in peers.SYNC.items()}
    times = interleaved(contenders, ROUNDS)
    return _named("2 failures", [
        ratio(times, TYPES, BY_HAND, 9),
        ratio(times, CLASSIFIER, BY_HAND, 16),
        *_slower_peers(times, TYPES, peers.SYNC),
    ])  # fmt: skip


def _failures_async() -> list[Result]:
    """The same with coroutines."""
    ours = {BY_HAND: by_hand_async, TYPES: _types(), CLASSIFIER: _types(retry_on=outlast.RETRYABLE)}
    with asyncio.Runner() as runner:
        contenders = {name: _awaiting(runner, wrap(_failing_twice_async()), 2_000) for name, wrap in ours.items()}
        contenders |= {name: _awaiting(runner, wrap(_failing_twice_async()), 300) for name, wrap in peers.ASYNC.items()}
        times = interleaved(contenders, ROUNDS)
    return _named("2 failures, async", [
        ratio(times, TYPES, BY_HAND, 9),
        ratio(times, CLASSIFIER, BY_HAND, 16),
        *_slower_peers(times, TYPES, peers.ASYNC),
    ])  # fmt: skip


def _logging() -> list[Result]:
    """The same with the log on: what comes on top, in log records of the same size written by hand."""
    wraps = {TYPES: _types(), CLASSIFIER: _types(retry_on=outlast.RETRYABLE)}
    contenders = {RECORDS: _logged(per_call(_two_records, 500))}
    for name, wrap in wraps.items():
        contenders[name] = per_call(wrap(_failing_twice()), 500)
        contenders[name + LOGGED] = _logged(per_call(wrap(_failing_twice()), 500))
    times = interleaved(contenders, ROUNDS)
    return [added(times, f"2 failures: the log adds to {name}", (name + LOGGED, name), RECORDS, 1.7) for name in wraps]


def _threads() -> list[Result]:
    """Sixteen threads through one breaker, as a rate against the same without it: doing nothing, and some work."""
    results = []
    for what, function, number in (("doing nothing", _fine, 10_000), ("reading JSON", _busy, 1_000)):
        contenders = {
            "without": _in_threads(_types()(function), number),
            "through": _in_threads(_types(resource=_RESOURCE)(function), number),
        }
        times = interleaved(contenders, 15)
        rate, seconds = ratio(times, "without", "through", None).ratio, ratio(times, "through", "without", None).seconds
        name = f"{THREADS} threads {what}: rate through a breaker"
        results.append(Result(name, rate, "no breaker", 0.8, seconds, at_least=True))
    return results


def _memory() -> Result:
    """A million calls, one in a hundred of which fails twice and one in a thousand for good."""
    fine, bare = _types()(_fine), outlast.retry(_fine)
    recovering, hopeless = _types(retry_on=outlast.RETRYABLE)(_failing_twice()), _types()(_hopeless)

    def thousand() -> None:
        for _ in range(494):
            fine(1)
            bare(1)
        for _ in range(10):
            recovering()
        with contextlib.suppress(ConnectionError):
            hopeless()
        fine(1)

    for _ in range(20):
        thousand()
    tracemalloc.start()
    try:
        gc.collect()
        before, start = tracemalloc.get_traced_memory()[0], time.perf_counter()
        for _ in range(MILLION // 1000):
            thousand()
        seconds = time.perf_counter() - start
        gc.collect()
        left = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    return Result("a million calls leave behind", left, "before", LEFT_BEHIND, seconds, unit="bytes")


def by_hand(function: Function) -> Function:
    """The wrapper that one would write: three attempts for connection errors."""

    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        attempt = 0
        while True:
            try:
                return function(*args, **kwargs)
            except ConnectionError:
                attempt += 1
                if attempt >= 3:
                    raise

    return wrapper


def by_hand_async(function: Function) -> Function:
    """The same for coroutine functions."""

    @functools.wraps(function)
    async def wrapper(*args, **kwargs):
        attempt = 0
        while True:
            try:
                return await function(*args, **kwargs)
            except ConnectionError:
                attempt += 1
                if attempt >= 3:
                    raise

    return wrapper


def by_hand_with_timeout(function: Function) -> Function:
    """The same with a deadline of 60 s for each attempt."""

    @functools.wraps(function)
    async def wrapper(*args, **kwargs):
        attempt = 0
        while True:
            try:
                async with asyncio.timeout(60):
                    return await function(*args, **kwargs)
            except (ConnectionError, TimeoutError):
                attempt += 1
                if attempt >= 3:
                    raise

    return wrapper


def _types(**settings: Any) -> Function:
    given = {"max_attempts": 3, "retry_on": (ConnectionError,), "base_delay": 0, **settings}
    return outlast.retry(policy=outlast.RetryPolicy(**given))


def _fine(value: int) -> int:
    return value


def _busy(value: int) -> object:
    return value and json.loads('{"items": [1, 2, 3], "next": null, "total": 3}')


async def _fine_async(value: int) -> int:
    return value


async def _suspending(value: int) -> int:
    await _real_sleep(0)
    return value


def _calling(function: Function) -> Function:
    return functools.partial(function, 1)


def _failing_twice() -> Function:
    """Return a function of its own: two calls in three fail."""
    fails = cycle((True, True, False)).__next__

    def function() -> int:
        if fails():
            raise ConnectionError("refused")
        return 1

    return function


def _failing_twice_async() -> Function:
    fails = cycle((True, True, False)).__next__

    async def function() -> int:
        if fails():
            raise ConnectionError("refused")
        return 1

    return function


def _hopeless() -> None:
    raise ConnectionError("refused")


def _two_records() -> None:
    """Two records with the text and the keys that a retry's have."""
    for attempt in (1, 2):
        keys = {
            "attempt": attempt,
            "max_attempts": 3,
            "error_category": "network",
            "origin": "network",
            "http_status": None,
            "exception_name": "ConnectionError",
            "failure_message": "refused",
            "delay": 0.0,
            "call": "fetch",
        }
        text = "%s: attempt %d of %d failed (%s), retrying in %.3g s: %s: %s"
        _LOG.warning(text, "fetch", attempt, 3, "network", 0.0, "ConnectionError", "refused", extra=keys)


def _awaiting(runner: asyncio.Runner, function: Function, number: int) -> Callable[[], float]:
    """Return a contender that awaits a coroutine function `number` times on a running loop."""
    args = (1,) if function.__wrapped__ in {_fine_async, _suspending} else ()

    async def many() -> float:
        start = time.perf_counter()
        for _ in range(number):
            await function(*args)
        return (time.perf_counter() - start) / number

    return lambda: runner.run(many())


def _in_threads(function: Function, number: int) -> Callable[[], float]:
    """Return a contender that calls a function from many threads at once; gives seconds per call of all together."""

    def work() -> None:
        for _ in range(number):
            function(1)

    def run_once() -> float:
        threads = [threading.Thread(target=work) for _ in range(THREADS)]
        start = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return (time.perf_counter() - start) / (THREADS * number)

    return run_once


class _Nowhere(logging.Handler):
    """Formats, and writes to nobody."""

    def emit(self, record: logging.LogRecord) -> None:
        self.format(record)


def _logged(contender: Callable[[], float]) -> Callable[[], float]:
    """Return a contender that runs with the log on."""
    handler = _Nowhere()

    def run_once() -> float:
        with _log_level(logging.WARNING):
            _LOG.addHandler(handler)
            try:
                return contender()
            finally:
                _LOG.removeHandler(handler)

    return run_once


@contextlib.contextmanager
def _log_level(level: int) -> Iterator[None]:
    before, propagate = _LOG.level, _LOG.propagate
    _LOG.setLevel(level)
    _LOG.propagate = False
    try:
        yield
    finally:
        _LOG.setLevel(before)
        _LOG.propagate = propagate


@contextlib.contextmanager
def _no_sleep() -> Iterator[None]:
    with mock.patch("time.sleep", peers.no_sleep), mock.patch("asyncio.sleep", peers.no_sleep_async):
        yield


def _named(what: str, results: list[Result]) -> list[Result]:
    """Say before each result what was measured."""
    return [replace(each, what=f"{what}: {each.what}") for each in results]
