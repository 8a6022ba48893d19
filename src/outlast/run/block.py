"""The block form: ``for attempt in outlast.attempts(policy): with attempt: …``, sync and async.

The caller writes the loop; `CallState` decides, as in the two attempt loops.
"""

from outlast import async_backends, clock
from outlast.decide.policy import DEFAULT_POLICY, RetryPolicy
from outlast.errors import ConfigError, ResourceUnavailableError
from outlast.run.call_state import CURRENT, CallPlan, CallState, restart_attempt
from outlast.run.loops import leave

TYPE_CHECKING = False
if TYPE_CHECKING:
    from contextvars import Token
    from typing import Any, Self


class BlockAttempt:
    """One attempt: a context manager that swallows the error if another attempt follows.

    Attributes:
        number: Number of the attempt, from 1.
    """

    def __init__(self, owner: "Attempts", number: int) -> None:
        self._owner = owner
        self._limit: async_backends.TimeLimit | None = None
        self._token: Token[Any] | None = None
        self.number = number

    @property
    def time_left(self) -> float | None:
        """Seconds left for this attempt, by its timeout or the deadline; None without either."""
        return self._owner.time_left

    def __enter__(self) -> "Self":
        """Begin the attempt; under ``async for`` it is cancelled when its time is up."""
        self._limit = self._owner.enter()
        self._token = CURRENT.set(self._owner.state)
        self._owner.state.active = True
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: object) -> bool:
        """End the attempt; an error that is retried goes no further."""
        limit, self._limit = self._limit, None
        token, self._token = self._token, None
        self._owner.state.active = False  # a generator may leave blocks in another order than it entered them
        if token is not None:
            leave(token)
        try:
            expired = limit is not None and limit.exit(kind, error, traceback)
        except BaseException as other:  # a nursery that raised more than could be cancelled
            if self._owner.exit(other):
                return True
            raise
        if limit is None or not expired:
            return self._owner.exit(error)
        late, nursery_error = TimeoutError(f"cancelled after {limit.seconds:.3g} s"), limit.nursery_error
        limit.nursery_error, late.__cause__ = None, nursery_error
        try:
            if self._owner.exit(late):
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
        plan = CallPlan(policy, name)
        self.state = CallState(plan.begin())
        self.state.active = False
        self._guard = plan.resource
        self._delay: float | None = 0.0
        self._permit = 0
        self._began = 0.0
        self._async = False
        self._used = False
        self._unentered = False  # an attempt was handed out, and its block has not been entered

    @property
    def time_left(self) -> float | None:
        """Seconds left for the current attempt."""
        return self.state.attempt_left()

    def enter(self) -> "async_backends.TimeLimit | None":
        """Begin a block; return its time limit, if it has one."""
        self._unentered = False
        if self._guard is not None:
            try:
                self._permit = self._guard.enter()
            except Exception as error:  # others were quicker since it was asked
                self.state.refused(error)
                raise
            self._began = clock.monotonic()
        left = self.state.attempt_left() if self._async else None
        try:
            return None if left is None else async_backends.TimeLimit(left)
        except BaseException:  # an event loop that is neither asyncio's nor trio's
            if self._guard is not None:
                self._guard.withdrawn(self._permit)
            raise

    def exit(self, error: BaseException | None) -> bool:
        """End an attempt; return whether its error goes no further."""
        if self._guard is not None:
            if error is None:
                self._guard.succeeded(self._permit, clock.monotonic() - self._began)
            else:
                self._guard.ended(error, self._permit)
        if error is not None and issubclass(type(error), Exception):
            self._delay = self.state.failed(error)  # type: ignore[arg-type]  # an Exception, by its type
            return self._delay is not None
        self._delay = None
        if error is None and self.state.attempt > 1:
            self.state.succeeded()
        return False

    def _next_delay(self) -> float | None:
        """Return the wait before the next attempt, or None if there is none."""
        if self._unentered:
            raise RuntimeError("write 'with attempt:' inside the loop, or nothing is retried")
        delay, self._delay = self._delay, None
        return delay

    def _is_final(self, refusal: ResourceUnavailableError) -> bool:
        """Return whether no other attempt follows one that was refused."""
        self._delay = self.state.failed(refusal)
        return self._delay is None

    def _next(self) -> BlockAttempt:
        """Return the next attempt, if its resource allows it."""
        if self._guard is not None:  # only asked: a caller who leaves the loop now has nothing to give back
            self._guard.withdrawn(self._guard.enter())
        self._unentered = True
        return BlockAttempt(self, self.state.attempt)

    def __iter__(self) -> "Self":
        """Yield attempts until one succeeds or the error is raised.

        Raises:
            RuntimeError: If it was iterated over before: the block would be skipped silently.
        """
        if self._used:
            raise RuntimeError("these attempts were already used; call outlast.attempts(…) again for each block")
        self._used = True
        return self

    def __next__(self) -> BlockAttempt:
        """Wait, and return the next attempt."""
        while (delay := self._next_delay()) is not None:
            if delay > 0:
                try:
                    clock.sleep(delay)
                except BaseException:
                    self.state.last = None
                    raise
            self.state.begin()
            try:
                if self._guard is not None and self._guard.wait(self.state):
                    restart_attempt(self.state)
                return self._next()
            except ResourceUnavailableError as refusal:
                if self._is_final(refusal):
                    raise
        raise StopIteration

    def __aiter__(self) -> "Self":
        """Yield attempts until one succeeds or the error is raised."""
        self._async = True
        self.__iter__()
        return self

    async def __anext__(self) -> BlockAttempt:
        """Wait without blocking the event loop, and return the next attempt."""
        while (delay := self._next_delay()) is not None:
            if delay > 0:
                try:
                    await clock.sleep_async(delay)
                except BaseException:
                    self.state.last = None
                    raise
            self.state.begin()
            try:
                if self._guard is not None and await self._guard.wait_async(self.state):
                    restart_attempt(self.state)
                return self._next()
            except ResourceUnavailableError as refusal:
                if self._is_final(refusal):
                    raise
        raise StopAsyncIteration


def attempts(policy: RetryPolicy = DEFAULT_POLICY, *, name: str = "block", retry_result: None = None) -> Attempts:
    """Retry a block: ``for attempt in outlast.attempts(policy): with attempt: …``. In async code use ``async for``.

    Args:
        policy: The retry policy; by default that of ``@outlast.retry`` without arguments.
        name: The name of the block in logs and events.
        retry_result: Not possible here.

    Raises:
        ConfigError: If `retry_result` is given.
    """
    if retry_result is not None:
        raise ConfigError(
            "retry_result needs a returned value, and a block has none; use outlast.retry or outlast.call"
        )
    return Attempts(policy, name)
