"""The block form: ``for attempt in outlast.attempts(policy): with attempt: …``, sync and async."""

from itertools import count

from outlast import async_backends, clock
from outlast.decide.policy import DEFAULT_POLICY, RetryPolicy
from outlast.run.call_state import CallState
from outlast.run.report import report_counter
from outlast.run.resources import resource

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Self


_order = count(1)


class BlockAttempt:
    """One attempt: a context manager that takes the error in when another attempt follows.

    Attributes:
        number: From 1.
    """

    def __init__(self, owner: "Attempts", number: int) -> None:
        """Belong to a loop."""
        self._owner = owner
        self._limit: async_backends.TimeLimit | None = None
        self.number = number
        self.entered = 0  # while its block runs: how many had been entered before, so that the innermost can be told

    @property
    def time_left(self) -> float | None:
        """Seconds left for this attempt, by its timeout or the deadline; None where there is neither."""
        return self._owner.time_left

    @property
    def state(self) -> CallState:
        """The call that it is an attempt of."""
        return self._owner.state

    def __enter__(self) -> "Self":
        """Begin the attempt; under ``async for`` it is cancelled when its time is over."""
        self._limit = self._owner.entered()
        self.entered = next(_order)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: object) -> bool:
        """End it; an error that is retried goes no further."""
        limit, self._limit = self._limit, None
        self.entered = 0
        try:
            over = limit is not None and limit.exit(kind, error, traceback)
        except BaseException as other:  # a nursery that raised more than could be cancelled
            if self._owner.ended(other):
                return True
            raise
        if limit is None or not over:
            return self._owner.ended(error)
        late, nursery_error = TimeoutError(f"cancelled after {limit.seconds:g} s"), limit.nursery_error
        limit.nursery_error, late.__cause__ = None, nursery_error
        try:
            if self._owner.ended(late):
                return True
            raise late from nursery_error
        finally:
            del late, nursery_error  # an error whose traceback holds this frame would refer to itself


class Attempts:
    """The attempts of one block. Iterate over it once, with ``for`` or ``async for``.

    Args:
        policy: The retry policy.
        name: The name of the block in logs and events.
    """

    def __init__(self, policy: RetryPolicy, name: str) -> None:
        """Begin."""
        timed = policy.deadline is not None or policy.attempt_timeout is not None
        self._guard = None if policy.resource is None else resource(policy.resource)
        self.state = CallState(policy, name, report_counter.last, clock.monotonic() if timed else None, self._guard)
        self._delay: float | None = 0.0
        self._permit = 0
        self._begun = 0.0
        self._async = False
        self._used = False
        self._waiting = False  # an attempt was handed out, and its block has not been entered

    @property
    def time_left(self) -> float | None:
        """Seconds left for the current attempt."""
        return self.state.attempt_left()

    def entered(self) -> "async_backends.TimeLimit | None":
        """Take the beginning of a block in; return what ends it in time, where something does."""
        self._waiting = False
        if self._guard is not None:
            try:
                self._permit = self._guard.enter()
            except Exception as error:  # others were quicker since it was asked
                self.state.refused(error)
                raise
            self._begun = clock.monotonic()
        left = self.state.attempt_left() if self._async else None
        try:
            return None if left is None else async_backends.TimeLimit(left)
        except BaseException:  # an event loop that we do not know
            if self._guard is not None:
                self._guard.withdrawn(self._permit)
            raise

    def ended(self, error: BaseException | None) -> bool:
        """Take the end of an attempt in; tell whether its error is taken care of."""
        if self._guard is not None:
            if error is None:
                self._guard.succeeded(self._permit, clock.monotonic() - self._begun)
            elif isinstance(error, Exception):
                self._guard.failed(error, self._permit)
            else:
                self._guard.withdrawn(self._permit)
        if isinstance(error, Exception):
            self._delay = self.state.failed(error)
            return self._delay is not None
        self._delay = None
        if error is None and self.state.number > 1:
            self.state.succeeded()
        return False

    def _planned(self) -> float | None:
        """Return the wait before the next attempt, or None where there is none."""
        if self._waiting:
            message = "write 'with attempt:' inside the loop, or nothing is retried"
            raise RuntimeError(message)
        delay, self._delay = self._delay, None
        return delay

    def _next(self) -> BlockAttempt | None:
        """Return the next attempt; None where its resource refuses it and there is to be another."""
        if not self.state.begin():
            raise self.state.overslept()
        if self._guard is not None:
            try:  # only asked: who leaves the loop before the block begins has nothing to give back
                self._guard.withdrawn(self._guard.enter())
            except Exception as error:
                self._delay = self.state.failed(error)
                if self._delay is None:
                    raise
                return None
        self._waiting = True
        return BlockAttempt(self, self.state.number)

    def __iter__(self) -> "Self":
        """Yield attempts until one succeeds or the error is raised.

        Raises:
            RuntimeError: If it has been iterated over before: the block would be skipped without a word.
        """
        self._begin()
        return self

    def _begin(self) -> None:
        if self._used:
            message = "these attempts were already used; call outlast.attempts(…) again for each block"
            raise RuntimeError(message)
        self._used = True

    def __next__(self) -> BlockAttempt:
        """Wait, and return the next attempt."""
        while (delay := self._planned()) is not None:
            if delay > 0:
                try:
                    clock.sleep(delay)
                except BaseException:
                    self.state.last = None
                    raise
            if (attempt := self._next()) is not None:
                return attempt
        raise StopIteration

    def __aiter__(self) -> "Self":
        """Yield attempts until one succeeds or the error is raised."""
        self._begin()
        self._async = True
        return self

    async def __anext__(self) -> BlockAttempt:
        """Wait without blocking the event loop, and return the next attempt."""
        while (delay := self._planned()) is not None:
            if delay > 0:
                try:
                    await clock.sleep_async(delay)
                except BaseException:
                    self.state.last = None
                    raise
            if (attempt := self._next()) is not None:
                return attempt
        raise StopAsyncIteration


def running_in(values: "Iterable[object]") -> BlockAttempt | None:
    """Return the innermost attempt among some values whose block is running, or None."""
    found = [value for value in values if type(value) is BlockAttempt and value.entered]
    return max(found, key=lambda attempt: attempt.entered, default=None)


def attempts(policy: RetryPolicy = DEFAULT_POLICY, *, name: str = "block") -> Attempts:
    """Retry a block: ``for attempt in outlast.attempts(policy): with attempt: …``. In async code use ``async for``.

    Args:
        policy: The retry policy; by default that of ``@outlast.retry`` without arguments.
        name: The name of the block in logs and events.
    """
    return Attempts(policy, name)
