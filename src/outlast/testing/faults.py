"""Faults by order: a function or a point of the program fails, in the way that a category is, so often and no more.

>>> with inject_faults() as faults:
...     faults.fail("shop.client.fetch", "rate_limit", retry_after=3, times=2)
...     faults.fail("after-upload", "network", rate=0.2, seed=1)
...     collect()
"""

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from random import Random
from typing import Any

from outlast.errors import ConfigError
from outlast.failure import Category
from outlast.run import points
from outlast.run.retry import is_coroutine_function
from outlast.testing.reached import NotReachedError, times_passed
from outlast.testing.samples import sample_error
from outlast.testing.seats import mark_over, seat_of

__all__ = ["Fault", "Faults", "inject_faults", "watched"]

Error = Category | str | BaseException | type[BaseException]


class Fault:
    """One fault that was ordered.

    Attributes:
        place: A function's dotted name, or the name of a point.
        calls: How many calls have come to it.
        failed: How many of them it has made fail.
    """

    def __init__(
        self,
        place: str,
        error: Callable[[], BaseException],
        *,
        times: int | None,
        after: int,
        rate: float | None,
        seed: int,
        optional: bool,
    ) -> None:
        """Begin with no calls."""
        self.place, self.error, self.optional = place, error, optional
        self.calls = self.failed = 0
        self._times, self._after, self._rate = times, after, rate
        self._random = Random(f"{seed} {place}")  # noqa: S311  # the same calls fail in every run; guards no secret

    def __repr__(self) -> str:
        """Show what came of it."""
        return f"Fault({self.place!r}, {type(self.error()).__name__}, calls={self.calls}, failed={self.failed})"

    def strikes(self) -> bool:
        """Count a call, and tell whether it fails."""
        self.calls += 1
        if self.calls <= self._after or (self._times is not None and self.failed >= self._times):
            return False
        if self._rate is not None and self._random.random() >= self._rate:
            return False
        self.failed += 1
        return True


class Faults:
    """The faults of one test. `inject_faults` gives one, and the pytest fixture ``outlast_faults``."""

    def __init__(self) -> None:
        """Begin without any."""
        self._at: dict[str, list[Fault]] = {}
        self._passed: list[str] = []
        self._undo = ExitStack()
        self._listening = self._ended = False
        self._counting = threading.Lock()

    def __str__(self) -> str:
        """List them, one a line."""
        return "\n".join(repr(fault) for fault in self.all)

    @property
    def all(self) -> list[Fault]:
        """The faults in the order in which they were ordered, place by place."""
        return [fault for faults in self._at.values() for fault in faults]

    def fail(  # noqa: PLR0913  # how often and when
        self,
        place: str,
        error: Error,
        *,
        times: int | None = None,
        after: int = 0,
        rate: float | None = None,
        seed: int = 0,
        retry_after: float | None = None,
        optional: bool = False,
    ) -> Fault:
        """Make a place fail. Several faults at one place take their turns in the order of these calls.

        Args:
            place: The dotted name of a function, such as ``shop.client.fetch`` or ``shop.client.Client.get``, which
                then fails before its first line and beneath its decorators; or the name of an ``outlast.point``.
            error: A category, for which a real error of that kind is raised; or the exception itself, or its class.
            times: How many calls fail; by default all.
            after: How many calls are let through first.
            rate: Share of the calls that fail, above 0 and up to 1.
            seed: Chooses which calls those are; the same seed chooses the same ones.
            retry_after: Seconds that the server asks to wait, for a category that a server reports.
            optional: Whether it is fine that no call ever comes here; otherwise the test fails then.

        Raises:
            ConfigError: If there is no such function or category, a number makes no sense, or the test has ended.
        """
        __tracebackhide__ = True  # a test that fails shows its own line
        if self._ended:
            message = f"the faults were put back already; order the one at {place!r} while the test runs"
            raise ConfigError(message)
        _check(times, after, rate)
        made = _maker(error, retry_after)
        fault = Fault(place, made, times=times, after=after, rate=rate, seed=seed, optional=optional)
        if place not in self._at:
            self._sit_down(place)
        self._at.setdefault(place, []).append(fault)
        return fault

    def check(self) -> None:
        """See that calls have come to every fault.

        Raises:
            NotReachedError: If not; a fault that nobody meets proves nothing.
        """
        for fault in self.all:
            if fault.calls or fault.optional:
                continue
            kind = "" if "." in fault.place else f"; {times_passed(self._passed)}"
            message = f"nothing came to the fault at {fault.place!r}, so this test proves nothing of it{kind}"
            raise NotReachedError(message)

    def end(self) -> None:
        """Put everything back as it was. A call that still comes by way of a fault then, goes through."""
        self._ended = True
        self._undo.close()

    def _sit_down(self, place: str) -> None:
        if "." in place:
            seat = seat_of(place)
            wrapper = watched(seat.function, lambda: self._arrive(place))
            undo = seat.put(wrapper)
            self._undo.callback(mark_over, wrapper)
            self._undo.callback(undo)
        elif not self._listening:
            self._undo.callback(points.listen(self._pass))
            self._listening = True

    def _pass(self, name: str) -> None:
        if self._ended:  # a thread that was on its way
            return
        if "." in name:
            message = f"the point {name!r} has a dot, as functions have; call it {name.replace('.', '-')!r}"
            raise ConfigError(message)
        with self._counting:
            self._passed.append(name)
        self._arrive(name)

    def _arrive(self, place: str) -> None:
        if self._ended:  # whoever patched the function too, or imported it meanwhile, still holds it with the fault
            return
        with self._counting:
            struck = next((fault for fault in self._at.get(place, ()) if fault.strikes()), None)
        if struck is not None:
            raise struck.error()


@contextmanager
def inject_faults() -> Iterator[Faults]:
    """Give `Faults` for a block, and put everything back at its end.

    Raises:
        NotReachedError: If the block ends well and no call has come to a fault.
    """
    faults = Faults()
    try:
        yield faults
    finally:
        faults.end()
    faults.check()


def watched(function: Callable[..., Any], arrive: Callable[[], object]) -> Callable[..., Any]:
    """Return the function with something put before each of its calls."""
    if is_coroutine_function(function):

        @functools.wraps(function)
        async def call_async(*args: Any, **kwargs: Any) -> Any:
            arrive()
            return await function(*args, **kwargs)

        return call_async

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        arrive()
        return function(*args, **kwargs)

    return call


def _maker(error: object, retry_after: float | None) -> Callable[[], BaseException]:
    """Return what makes the error: a new one for each call, where that is possible."""
    if isinstance(error, str):
        sample_error(error, retry_after=retry_after)  # says at once what is wrong with it
        return lambda: sample_error(error, retry_after=retry_after)
    if retry_after is not None:
        message = "retry_after goes with a category; an exception of your own carries its own"
        raise ConfigError(message)
    if isinstance(error, BaseException):
        return lambda: error.with_traceback(None)
    if isinstance(error, type) and issubclass(error, BaseException):
        return error
    message = f"{error!r} cannot be raised; give a category, an exception or its class"
    raise ConfigError(message)


def _check(times: object, after: object, rate: float | None) -> None:
    for what, number, least in (("times", times, 1), ("after", after, 0)):
        if number is not None and (type(number) is not int or number < least):
            message = f"{what} is {number!r}; give a whole number, {least} or more"
            raise ConfigError(message)
    if rate is not None and not 0 < rate <= 1:
        message = f"rate is {rate!r}; give a share of the calls, above 0 and up to 1"
        raise ConfigError(message)
