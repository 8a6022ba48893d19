"""The block form: ``for attempt in hf.attempts(policy): with attempt: …``, sync and async."""

from holdfast import backends, clock
from holdfast.decide.policy import DEFAULT_POLICY, RetryPolicy
from holdfast.run.attempting import Attempting
from holdfast.run.report import MARKS
from holdfast.run.resources import resource

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self

__all__ = ["Attempts", "BlockAttempt", "attempts"]


class BlockAttempt:
    """One attempt: a context manager that takes the error in when another attempt follows.

    Attributes:
        number: From 1.
    """

    def __init__(self, owner: "Attempts", number: int) -> None:
        """Belong to a loop."""
        self._owner = owner
        self._limit: backends.Limit | None = None
        self.number = number

    @property
    def time_left(self) -> float | None:
        """Seconds left for this attempt, by its timeout or the deadline; None where there is neither."""
        return self._owner.time_left

    def __enter__(self) -> "Self":
        """Begin the attempt; under ``async for`` it is cancelled when its time is over."""
        self._limit = self._owner.entered()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: object) -> bool:
        """End it; an error that is retried goes no further."""
        limit, self._limit = self._limit, None
        if limit is not None and limit.left(kind, error, traceback):
            late = TimeoutError(f"cancelled after {limit.seconds:g} s")
            if self._owner.ended(late):
                return True
            raise late from None
        return self._owner.ended(error)


class Attempts:
    """The attempts of one block; iterate over it with ``for`` or ``async for``, once.

    Args:
        policy: What decides.
        name: What the block is called in logs and events.
    """

    def __init__(self, policy: RetryPolicy, name: str) -> None:
        """Begin."""
        timed = policy.deadline is not None or policy.attempt_timeout is not None
        self._guard = None if policy.resource is None else resource(policy.resource)
        self._state = Attempting(policy, name, MARKS.last, clock.monotonic() if timed else None, self._guard)
        self._delay: float | None = 0.0
        self._permit = 0
        self._begun = 0.0
        self._async = False
        self._used = False
        self._waiting = False  # an attempt was handed out, and its block has not been entered

    @property
    def time_left(self) -> float | None:
        """Seconds left for the attempt that runs."""
        return self._state.attempt_left()

    def entered(self) -> "backends.Limit | None":
        """Take the beginning of a block in; return what ends it in time, where something does."""
        self._waiting = False
        left = self._state.attempt_left() if self._async else None
        return None if left is None else backends.Limit(left)

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
            self._delay = self._state.failed(error)
            return self._delay is not None
        self._delay = None
        if error is None and self._state.number > 1:
            self._state.succeeded()
        return False

    def _planned(self) -> float | None:
        """Return the wait before the next attempt, or None where there is none."""
        if self._waiting:
            if self._guard is not None:
                self._guard.withdrawn(self._permit)
            message = "write 'with attempt:' inside the loop, or nothing is retried"
            raise RuntimeError(message)
        delay, self._delay = self._delay, None
        return delay

    def _next(self) -> BlockAttempt | None:
        """Return the next attempt; None where its resource refuses it and there is to be another."""
        if not self._state.begin():
            raise self._state.overslept()
        if self._guard is not None:
            try:
                self._permit = self._guard.enter()
            except Exception as error:
                self._delay = self._state.failed(error)
                if self._delay is None:
                    raise
                return None
            self._begun = clock.monotonic()
        self._waiting = True
        return BlockAttempt(self, self._state.number)

    def __iter__(self) -> "Self":
        """Yield attempts until one succeeds or the error is raised.

        Raises:
            RuntimeError: If it has been iterated over before: the block would be skipped without a word.
        """
        self._begin()
        return self

    def _begin(self) -> None:
        if self._used:
            message = "these attempts are used up; call hf.attempts(…) anew for every block"
            raise RuntimeError(message)
        self._used = True

    def __next__(self) -> BlockAttempt:
        """Wait, and return the next attempt."""
        while (delay := self._planned()) is not None:
            if delay > 0:
                clock.sleep(delay)
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
                await clock.sleep_async(delay)
            if (attempt := self._next()) is not None:
                return attempt
        raise StopAsyncIteration


def attempts(policy: RetryPolicy = DEFAULT_POLICY, *, name: str = "block") -> Attempts:
    """Retry a block: ``for attempt in hf.attempts(policy): with attempt: …``; under async, ``async for``.

    Args:
        policy: What decides; by default what a bare ``@hf.retry`` does.
        name: What the block is called in logs and events.
    """
    return Attempts(policy, name)
