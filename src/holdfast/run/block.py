"""The block form: ``for attempt in hf.attempts(policy): with attempt: …``, sync and async."""

from holdfast import clock
from holdfast.decide.policy import DEFAULT_POLICY, RetryPolicy
from holdfast.run.attempting import Attempting
from holdfast.run.report import MARKS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
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
        self.number = number

    def __enter__(self) -> "Self":
        """Begin the attempt."""
        self._owner.entered = True
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: object) -> bool:
        """End it; an error that is retried goes no further."""
        return self._owner.ended(error)


class Attempts:
    """The attempts of one block; iterate over it with ``for`` or ``async for``, once.

    Args:
        policy: What decides.
        name: What the block is called in logs and events.
    """

    def __init__(self, policy: RetryPolicy, name: str) -> None:
        """Begin."""
        started = clock.monotonic() if policy.deadline is not None else None
        self._state = Attempting(policy, name, MARKS.last, started)
        self._delay: float | None = 0.0
        self._failed = False
        self.entered = False

    def ended(self, error: BaseException | None) -> bool:
        """Take the end of an attempt in; tell whether its error is taken care of."""
        if isinstance(error, Exception):
            self._delay = self._state.failed(error)
            self._failed = True
            return True
        self._delay = None
        if error is None and self._failed:
            self._state.succeeded()
        return False

    def _next(self) -> BlockAttempt:
        if self._state.number > 1 and not self.entered:
            message = "write 'with attempt:' inside the loop, or nothing is retried"
            raise RuntimeError(message)
        return BlockAttempt(self, self._state.number)

    def __iter__(self) -> "Iterator[BlockAttempt]":
        """Yield attempts until one succeeds or the error is raised."""
        while self._delay is not None:
            if self._delay > 0:
                clock.sleep(self._delay)
            self._delay = None
            yield self._next()

    async def __aiter__(self) -> "AsyncIterator[BlockAttempt]":
        """Yield attempts until one succeeds or the error is raised."""
        while self._delay is not None:
            if self._delay > 0:
                await clock.sleep_async(self._delay)
            self._delay = None
            yield self._next()


def attempts(policy: RetryPolicy = DEFAULT_POLICY, *, name: str = "block") -> Attempts:
    """Retry a block: ``for attempt in hf.attempts(policy): with attempt: …``; under async, ``async for``.

    Args:
        policy: What decides; by default what a bare ``@hf.retry`` does.
        name: What the block is called in logs and events.
    """
    return Attempts(policy, name)
