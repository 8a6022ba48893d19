"""One call from its first failure on: asks the decider about each failure, and records, logs and publishes the answer.

Both attempt loops use it, and so do the block form, HTTP requests, polls and targets of jobs. It is created at the
first failure, so a call that succeeds does not pay for it.
"""

from contextvars import ContextVar

from outlast import clock
from outlast.classify import attach_failure, failure_of
from outlast.classify.libraries import FILES
from outlast.classify.safe_access import HeldInterrupts, class_name, contained, shown_text
from outlast.decide.decision import Decision, DecisionReason, DecisionState, Defer, Place, Retry, decide
from outlast.failure import Frozen
from outlast.record import bus
from outlast.record.bus import publish
from outlast.run import logs
from outlast.run.nested_clients import CLIENTS_WITH_RETRIES, warn_of_client_retries
from outlast.run.report import Report, attach_report, failed_attempt, report_counter, report_of, was_retried_inside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any

    from outlast.decide.policy import RetryPolicy
    from outlast.failure import Failure
    from outlast.run.resources import Resource


RETRIES_OFF: "ContextVar[bool]" = ContextVar("outlast_retries_off", default=False)
FAILED_ATTEMPTS: "ContextVar[list[tuple[RetryPolicy, str]] | None]" = ContextVar("outlast_failed", default=None)
"""Collects the policy and the name of each failed attempt, for tests that count them."""
CURRENT_TASK: "ContextVar[Any]" = ContextVar("outlast.task", default=None)
"""The claimed task that a worker runs in this thread or coroutine; None outside of one."""
_TEXT_LIMIT = 4096
_HINT_ATTRIBUTES = ("response", "retry_after", "headers", "status_code", "status")
_LOGGED_REASONS = frozenset(
    {DecisionReason.DEFERRED, DecisionReason.DEADLINE, DecisionReason.BUDGET, DecisionReason.BREAKER}
)  # even after a single attempt


class CallPlan:
    """What all calls of one function, transport, job or monitor share.

    Args:
        policy: The policy.
        name: The name of the calls in logs and events.
        state: Makes the state of a call that failed, from the call and its arguments.
        sleep: Waits before the next attempt; by default the clock's sleep.
        sleep_async: The same on an event loop.

    Attributes:
        resource: The resource of the policy, if it has one.
        timed: Whether the policy has a time limit.
        limit: Seconds for a first attempt; None for no limit.
        by_failure: Whether the policy has to know the category of every failure.
    """

    __slots__ = ("by_failure", "limit", "name", "policy", "resource", "sleep", "sleep_async", "state", "timed")

    def __init__(
        self,
        policy: "RetryPolicy",
        name: str,
        *,
        state: "Callable[[Call, tuple[Any, ...]], CallState] | None" = None,
        sleep: "Callable[[CallState, float], None] | None" = None,
        sleep_async: "Callable[[CallState, float], Awaitable[None]] | None" = None,
    ) -> None:
        self.policy, self.name = policy, name
        self.state = CallState if state is None else state
        self.sleep, self.sleep_async = sleep, sleep_async
        self.resource: Resource | None = None
        if policy.resource is not None:
            from outlast.run.resources import resource  # noqa: PLC0415  # only policies with a resource need it

            self.resource = resource(policy.resource)
        self.by_failure = policy.retry_on is None or isinstance(policy.retry_on, frozenset) or bool(policy.overrides)
        limits = [each for each in (policy.deadline, policy.attempt_timeout) if each is not None]
        self.timed = bool(limits)
        self.limit = min(limits, default=None)

    def begin(self) -> "Call":
        """Begin a call."""
        return self, clock.monotonic() if self.timed else None, report_counter.last


Call = tuple[CallPlan, float | None, int]
"""A call at its first attempt: its plan, when it began if that matters, and the newest report at that time."""

CURRENT: "ContextVar[Call | CallState | None]" = ContextVar("outlast_current_call", default=None)
"""The call that the running code is part of; the innermost if they are nested."""


class CallState(DecisionState):
    """One call from its first failure on.

    Args:
        call: The call.
        args: The arguments of the function, which tell some plans what is called.

    Attributes:
        active: Whether an attempt is running; only a block can leave its attempts before the call ends.
        decision: The last decision.
        history: The attempts that were retried: class, text, and the wait after it.
    """

    active: bool = True

    def __init__(self, call: "Call", args: "tuple[Any, ...]" = ()) -> None:  # noqa: ARG002  # for derived states
        self.plan, started, self.serial = call
        self.attempt_began = started
        self.began = clock.monotonic() if started is None else started
        self.attempt = 1
        self.chance = clock.chance
        self.last: Exception | None = None
        self.decision: Decision | None = None
        self.history: list[tuple[str, str, float | None]] = []

    @property
    def name(self) -> str:
        """What is called, for logs and events."""
        return self.plan.name

    @property
    def started(self) -> float | None:
        """When the call began, on the monotonic clock; None without a time limit."""
        return self.began if self.plan.timed else None

    def failed(self, error: Exception) -> float | None:
        """Decide on a failed attempt.

        It raises nothing itself: an error whose traceback held this frame would refer to itself, and stay in memory
        with all it refers to until the garbage collector runs.

        Returns:
            Seconds to wait before the next attempt; None if there is none, and the error is to be raised.

        Raises:
            KeyboardInterrupt: If the error's own code raised it in the main thread, after the attempt is recorded.
        """
        with HeldInterrupts():
            return self._decide_on(error)

    def _decide_on(self, error: Exception) -> float | None:
        counted = FAILED_ATTEMPTS.get()
        if counted is not None:
            counted.append((self.plan.policy, self.name))
        failure = self._read(error)
        self.decision = decision = decide(failure, self.plan.policy, self)
        if not isinstance(decision, Retry):
            self._give_up(error, failure, decision.reason)
            return None
        delay = decision.delay
        failure = self._publish_retry(error, failure, delay)
        if self.plan.timed:
            if failure is not None:
                attach_failure(error, failure)
            self.last = error  # raised if there is no time left when the next attempt would begin
        self.history.append((class_name(error), shown_text(error)[:_TEXT_LIMIT], delay))
        self.previous = delay
        self.attempt += 1
        return delay

    def _read(self, error: Exception) -> "Failure | None":
        """Read the facts that the decision needs off an error; return its failure, if the decision needs it."""
        plan = self.plan
        policy = plan.policy
        self.nested = contained(True, _may_be_reported, error) and was_retried_inside(error, self.serial)  # noqa: FBT003  # the default
        self.retries_off = RETRIES_OFF.get()
        if plan.timed:
            self.time_left = self.seconds_left()
            self.timed_out = type(error) is TimeoutError
        failure = None
        if plan.by_failure or self.place is not Place.CALL or contained(True, _may_have_hint, error):  # noqa: FBT003  # the default
            failure = failure_of(error)
        self.ask_policy(policy, error, failure)
        return failure

    def refusal(self) -> DecisionReason | None:
        """Return why the resource allows no retry; pay for the retry if it does."""
        guard = self.plan.resource
        if guard is None:
            return None
        if guard.is_open:  # the next attempt would be refused; the error at hand says more than that
            return DecisionReason.BREAKER
        return None if guard.pay_for_retry() else DecisionReason.BUDGET

    def broken(self, what: str, error: BaseException) -> None:
        """Log that a function of the user's policy raised an error."""
        logs.log_user_error(what, self.name, error)

    def succeeded(self) -> None:
        """Publish that an attempt succeeded after others had failed."""
        if bus.subscribers:
            from outlast.record.events import Recovered  # noqa: PLC0415  # only subscribers need it

            publish(Recovered(self.name, self.attempt, clock.monotonic() - self.began))

    def seconds_left(self) -> float | None:
        """Return the seconds until the deadline, or None without one."""
        if self.plan.policy.deadline is None:
            return None
        return max(0.0, self.began + self.plan.policy.deadline - clock.monotonic())

    def attempt_left(self) -> float | None:
        """Return the seconds left for this attempt: by its own timeout or the deadline, whichever is nearer."""
        return attempt_seconds_left(self.plan.policy, self.started, self.attempt_began)

    def begin(self) -> None:
        """Begin the next attempt.

        Raises:
            Exception: The error of the last attempt, if the wait took so long that the deadline is over.
        """
        if not self.plan.timed:
            return
        self.attempt_began = clock.monotonic()
        last, self.last = self.last, None
        deadline = self.plan.policy.deadline
        if last is None or deadline is None or self.attempt_began < self.began + deadline:
            return
        self.attempt -= 1
        self.history.pop()
        self.time_left = 0.0
        failure = failure_of(last) if self.plan.by_failure or self.place is not Place.CALL else None
        self.decision = decide(failure, self.plan.policy, self)
        self._give_up(last, failure, DecisionReason.DEADLINE, announced=True)
        try:
            raise last
        finally:
            del last  # an error whose traceback holds this frame would refer to itself

    def refused(self, error: Exception) -> None:
        """Give up on an attempt that its resource refused as it began."""
        is_open = type(error).__name__ == "BreakerOpenError"
        self._give_up(error, None, DecisionReason.BREAKER if is_open else DecisionReason.EXHAUSTED)

    def _publish_retry(self, error: Exception, failure: "Failure | None", delay: float) -> "Failure | None":
        """Log and publish a retry; return the failure, if it is known by now."""
        module = type(error).__module__
        if module != "builtins" and module.partition(".")[0] in CLIENTS_WITH_RETRIES:
            warn_of_client_retries(self.name, error)
        logged, published = logs.is_enabled(), bus.subscribers
        if not (logged or published):
            return failure
        failure = failure or failure_of(error)
        most = self._max_attempts(failure)
        if logged:
            logs.log_retry(self.name, failure, self.attempt, most, delay, error)
        if published:
            from outlast.record.events import AttemptFailed, Retrying  # noqa: PLC0415  # only subscribers need them

            publish(AttemptFailed(self.name, self.attempt, most, failure.settled()))
            publish(Retrying(self.name, self.attempt, most, delay, failure))
        return failure

    def _max_attempts(self, failure: "Failure") -> int:
        return self.plan.policy.for_category(failure.category).max_attempts

    def _give_up(
        self, error: Exception, failure: "Failure | None", reason: DecisionReason, *, announced: bool = False
    ) -> None:
        """Report that there is no other attempt: on the error, in the log and to subscribers.

        Args:
            error: The error that is going to be raised.
            failure: The classified error, if the decision needed it.
            reason: Why there is no other attempt.
            announced: Whether the failed attempt was published before.
        """
        elapsed = clock.monotonic() - self.began
        known = report_of(error) if reason is DecisionReason.NESTED else None
        if known is None or known.serial <= self.serial:  # else the inner report says more
            kept = [*self.history, (class_name(error), shown_text(error)[:_TEXT_LIMIT], None)]
            attempts = tuple(failed_attempt(number, *each) for number, each in enumerate(kept, 1))
            retry_at = clock.now() + self.decision.delay if isinstance(self.decision, Defer) else None
            attach_report(error, Report(attempts, elapsed, str(reason), retry_at, report_counter.next()))
        logged, published = self._is_logged(reason) and logs.is_enabled(), bus.subscribers
        if logged or published:
            failure = failure or failure_of(error)
        if failure is None:
            return
        attach_failure(error, failure)
        most = self._max_attempts(failure)
        if logged:
            logs.log_give_up(self.name, failure, self.attempt, most, reason)
        if published:
            from outlast.record.events import AttemptFailed, GaveUp  # noqa: PLC0415  # only subscribers need them

            if not announced:
                publish(AttemptFailed(self.name, self.attempt, most, failure))
            publish(GaveUp(self.name, self.attempt, elapsed, str(reason), failure))

    def _is_logged(self, reason: DecisionReason) -> bool:
        return self.attempt > 1 or reason in _LOGGED_REASONS


def _may_be_reported(error: Exception) -> bool:
    """Return, at little cost, whether an inner retry may have left a report on an error or on its causes."""
    if error.__context__ is not None or error.__cause__ is not None or isinstance(error, ExceptionGroup):
        return True
    return report_of(error) is not None


def _may_have_hint(error: Exception) -> bool:
    """Return, at little cost, whether an error can carry a wait that the other side asks for."""
    if error.__cause__ is not None:
        return True
    module = type(error).__module__
    if module == "builtins":
        return type(error) is ExceptionGroup
    return module.partition(".")[0] in FILES or any(hasattr(error, name) for name in _HINT_ATTRIBUTES)


def attempt_seconds_left(policy: "RetryPolicy", started: float | None, attempt_began: float | None) -> float | None:
    """Return the seconds left for an attempt: by its own timeout or the deadline, whichever is nearer."""
    now = clock.monotonic()
    limits = [
        since + limit - now
        for since, limit in ((started, policy.deadline), (attempt_began, policy.attempt_timeout))
        if since is not None and limit is not None
    ]
    return max(0.0, min(limits)) if limits else None


TASK_PATIENCE = 1.0
"""Seconds that a task of a worker waits for a rate limit of its process; a task with a longer wait is deferred."""


def longest_wait(current: "Call | CallState | None") -> float | None:
    """Return the seconds that a call may wait before it starts: until its deadline, less in a task; None for no end."""
    patience = None if CURRENT_TASK.get() is None else TASK_PATIENCE
    if current is None:
        return patience
    left = (current if isinstance(current, CallState) else CallState(current)).seconds_left()
    return left if patience is None or (left is not None and left < patience) else patience


def restart_attempt(current: "Call | CallState | None") -> None:
    """Have the timeout of an attempt begin now, because the attempt had to wait for its turn."""
    if current is not None and not isinstance(current, CallState):
        current = CallState(current)
        CURRENT.set(current)
    if current is not None and current.plan.timed:
        current.attempt_began = clock.monotonic()


class CurrentAttempt(Frozen):
    """The attempt in which a function is called.

    Attributes:
        number: Number of the attempt, from 1.
        max_attempts: Number of attempts that the policy allows.
        time_left: Seconds left for this attempt by its timeout or the deadline; None without either.
    """

    number: int
    max_attempts: int
    time_left: float | None

    def __init__(self, number: int, max_attempts: int, time_left: float | None) -> None:
        self.__dict__.update(number=number, max_attempts=max_attempts, time_left=time_left)


def current_attempt() -> CurrentAttempt | None:
    """Return the attempt in which the calling code runs; None outside of a retry.

    Code that shares the context of a call can still see its attempt after the call has ended: an asyncio task that the
    call started, or the consumer of a generator that yields inside a block of `attempts`.
    """
    current = CURRENT.get()
    if current is None or (isinstance(current, CallState) and not current.active):
        return None
    return attempt_of(current)


def attempt_of(current: "Call | CallState") -> CurrentAttempt:
    """Return the attempt that a call is at."""
    if isinstance(current, CallState):
        return CurrentAttempt(current.attempt, current.plan.policy.max_attempts, current.attempt_left())
    plan, started, _ = current
    return CurrentAttempt(1, plan.policy.max_attempts, attempt_seconds_left(plan.policy, started, started))
