"""The state of a call from its first failure on: classifies each failure, decides about a retry and computes the wait.

Both attempt loops use it. It is created at the first failure, so a call that succeeds does not pay for it.
"""

from contextvars import ContextVar

from outlast import clock
from outlast.classify import MAX_RETRY_AFTER_SECONDS, classify, default_classifier
from outlast.classify.libraries import FILES
from outlast.classify.safe_access import text_of
from outlast.decide.backoff import delay_before
from outlast.decide.policy import matches
from outlast.errors import BreakerOpenError
from outlast.failure import RETRYABLE, Category
from outlast.record.bus import has_subscribers, publish
from outlast.run import logs
from outlast.run.nested_clients import CLIENTS_WITH_RETRIES, warn_of_client_retries
from outlast.run.report import (
    Report,
    attach_report,
    calls_sharing_error,
    failed_attempt,
    report_counter,
    report_of,
    was_retried_inside,
)

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any

    from outlast.decide.policy import RetryPolicy
    from outlast.failure import Failure
    from outlast.run.resources import Resource


RETRIES_OFF: "ContextVar[bool]" = ContextVar("outlast_retries_off", default=False)
FAILED_ATTEMPTS: "ContextVar[list[tuple[RetryPolicy, str]] | None]" = ContextVar("outlast_failed", default=None)
"""Takes up the policy and the name of each failed attempt, for whoever wants to count them."""
_TEXT_LIMIT = 4096
_LOGGED_REASONS = frozenset({"deferred", "deadline", "budget", "breaker"})  # even where no retry was logged before


class CallState:
    """One call from its first failure on.

    Args:
        policy: What decides.
        name: What is called, for logs and events.
        serial: Number of the newest report when the call began; a later one on an error comes from an inner retry.
        started: When the call began, on the monotonic clock; None where the policy has no time limit.
        resource: Its budget pays for the retries.
    """

    __slots__ = (
        "attempt_began", "began", "history", "last", "name", "number", "policy", "previous", "resource", "serial",
        "started",
    )  # fmt: skip

    def __init__(
        self,
        policy: "RetryPolicy",
        name: str,
        serial: int,
        started: float | None,
        resource: "Resource | None" = None,
    ) -> None:
        """Begin with the first attempt."""
        self.policy = policy
        self.name = name
        self.serial = serial
        self.started = started
        self.resource = resource
        self.number = 1
        self.began = self.attempt_began = started
        self.last: Exception | None = None
        self.previous: float | None = None
        self.history: list[tuple[str, str, float | None]] = []

    def failed(self, error: Exception) -> float | None:
        """Decide on a failed attempt.

        It raises nothing itself: an error whose traceback held this frame would refer to itself, and stay in memory
        with all it refers to until the garbage collector comes by.

        Returns:
            Seconds to wait before the next attempt; None if there is none, and the error is to be raised.
        """
        if self.began is None:
            self.began = clock.monotonic()
        counted = FAILED_ATTEMPTS.get()
        if counted is not None:
            counted.append((self.policy, self.name))
        delay, reason, failure = 0.0, "", None
        policy = self.policy
        if policy._plain and self._is_plain(error):  # noqa: SLF001  # kept for this place: nothing has to be judged
            delay = delay_before(self.number, policy.backoff, policy.base_delay, policy.max_delay)
        else:
            failure, reason = self._wanted(error)
            if not reason:
                if failure is None and (policy.overrides or _may_have_retry_hint(error)):
                    failure = _classified(error)
                delay, reason = self._wait(failure)
        if reason:
            self._give_up(error, failure, reason, delay)
            return None
        self._told(error, failure, delay)
        if self.started is not None:
            self.last = error  # raised if there is no time left when the next attempt would begin
        text = text_of(error)
        kept = text if len(text) <= _TEXT_LIMIT else text[:_TEXT_LIMIT]
        self.history.append((type(error).__name__, kept, delay))
        self.previous = delay
        self.number += 1
        return delay

    def _is_plain(self, error: Exception) -> bool:
        """Tell whether another attempt follows by the type of the error and a fixed schedule alone."""
        policy = self.policy
        try:
            return (
                self.started is None
                and self.resource is None
                and isinstance(error, policy.retry_on)  # type: ignore[arg-type]  # types, by the check before
                and self.number < policy.max_attempts
                and error.__context__ is None
                and not _may_have_retry_hint(error)
                and getattr(error, "__outlast__", None) is None
                and not RETRIES_OFF.get()
            )
        except Exception:  # noqa: BLE001  # an error of the user's may raise whatever it is asked
            return False

    def _wait(self, failure: "Failure | None") -> tuple[float, str]:
        """Return how long to wait for the next attempt, and the reason not to, where there is one."""
        policy = self.policy
        chosen = policy if failure is None else policy.for_category(failure.category)
        if self.number >= chosen.max_attempts:
            return 0.0, "exhausted"
        try:
            if failure is None:
                delay = policy.get_delay(self.number, previous=self.previous, chance=clock.chance)
            else:
                delay = policy.delay_after(failure, self.number, previous=self.previous, chance=clock.chance)
        except Exception as mistake:  # noqa: BLE001  # a backoff of the user's; the error at hand matters more
            logs.log_user_error("backoff", self.name, mistake)
            return 0.0, "broken"
        if failure is not None and (failure.capped or (failure.retry_after or 0.0) > MAX_RETRY_AFTER_SECONDS):
            return delay, "deferred"  # so long a wait is not slept through
        left = self.time_left() if self.started is not None else None
        if left is not None and delay >= left:
            asked_to_wait = failure is not None and (
                failure.retry_after is not None or failure.category is Category.RATE_LIMIT
            )
            return delay, "deferred" if left > 0 and asked_to_wait else "deadline"
        if self.resource is not None:
            if self.resource.is_open:  # the next attempt would not be made; the error at hand says more than that
                return delay, "breaker"
            if not self.resource.pay_for_retry():
                return delay, "budget"
        return delay, ""

    def succeeded(self) -> None:
        """Tell that an attempt succeeded after others had failed."""
        if has_subscribers():
            from outlast.record.events import Recovered  # noqa: PLC0415  # only subscribers need it

            publish(Recovered(self.name, self.number, clock.monotonic() - (self.began or 0.0)))

    def time_left(self) -> float | None:
        """Return the seconds until the deadline, or None where there is none."""
        if self.started is None or self.policy.deadline is None:
            return None
        return max(0.0, self.started + self.policy.deadline - clock.monotonic())

    def begin(self) -> bool:
        """Begin the next attempt; False if the wait took longer than was asked for and the deadline is over."""
        if self.started is None:  # the loops ask only where there is a limit; this is for the block
            return True
        self.attempt_began = clock.monotonic()
        over = self.policy.deadline is not None and self.attempt_began >= self.started + self.policy.deadline
        if over and self.number > 1:  # the first attempt is always made
            return False
        self.last = None
        return True

    def overslept(self) -> Exception:
        """Give up for want of time after a wait, and return the error of the attempt before it."""
        error, self.last = self.last, None
        self.number -= 1
        self.history.pop()
        assert error is not None  # noqa: S101  # for type checkers: kept wherever there is a time limit
        self._give_up(error, None, "deadline", 0.0, told=True)
        return error

    def refused(self, error: Exception) -> None:
        """Give up on an attempt that its resource turned away as it began, though it would have let one pass before."""
        if self.began is None:
            self.began = clock.monotonic()
        self._give_up(error, None, "breaker" if isinstance(error, BreakerOpenError) else "exhausted", 0.0)

    def attempt_left(self) -> float | None:
        """Return the seconds left for this attempt: by its own timeout or the deadline, whichever is nearer."""
        return attempt_seconds_left(self.policy, self.started, self.attempt_began)

    def _wanted(self, error: Exception) -> "tuple[Failure | None, str]":
        """Return the failure, where it was needed, and the reason not to retry, where there is one."""
        policy = self.policy
        behind = error.__cause__ is not None or error.__context__ is not None or isinstance(error, ExceptionGroup)
        marked = behind or report_of(error) is not None  # looked at first: it is quicker
        if marked and not policy.nested and was_retried_inside(error, self.serial):
            return None, "nested"
        if RETRIES_OFF.get():
            return None, "off"
        if type(error) is TimeoutError and self.time_left() == 0:
            return None, "deadline"  # cut off by us, and whatever `retry_on` says there is no time for another
        retry_on = policy.retry_on
        if isinstance(retry_on, frozenset):
            failure = _classified(error)
            asks = retry_on is RETRYABLE or retry_on == RETRYABLE
            wanted = failure.retryable if asks else failure.category in retry_on
            return failure, "" if wanted else "permanent"
        try:
            return None, "" if matches(retry_on, error) else "permanent"
        except Exception as mistake:  # noqa: BLE001  # a predicate of the user's; the error at hand matters more
            logs.log_user_error("retry_on", self.name, mistake)
            return None, "broken"

    def _told(self, error: Exception, failure: "Failure | None", delay: float) -> None:
        module = type(error).__module__
        if module != "builtins" and module.partition(".")[0] in CLIENTS_WITH_RETRIES:
            warn_of_client_retries(self.name, error)
        if logs.wants_retries():
            logs.log_retry(self.name, failure, self.number, self._most(failure), delay, error)
        if has_subscribers():
            from outlast.record.events import AttemptFailed, Retrying  # noqa: PLC0415  # only subscribers need them

            failure = _with_texts(failure, error)
            publish(AttemptFailed(self.name, self.number, self._most(failure), failure))
            publish(Retrying(self.name, self.number, self._most(failure), delay, failure))

    def _most(self, failure: "Failure | None") -> int:
        """Return the attempts that a failure of this category has in all."""
        policy = self.policy
        if failure is not None and policy.overrides:
            policy = policy.for_category(failure.category)
        return policy.max_attempts

    def _give_up(
        self, error: Exception, failure: "Failure | None", reason: str, delay: float, *, told: bool = False
    ) -> None:
        elapsed = clock.monotonic() - (self.began or 0.0)
        kept_report = report_of(error) if reason == "nested" else None
        if kept_report is None or kept_report.serial <= self.serial:
            kept = [*self.history, (type(error).__name__, text_of(error)[:_TEXT_LIMIT], None)]
            attempts = tuple(failed_attempt(number, *each) for number, each in enumerate(kept, 1))
            asked = delay if failure is None or failure.retry_after is None else failure.retry_after
            retry_at = clock.now() + asked if reason == "deferred" else None
            tried = len(attempts) > 1 or reason in {"budget", "nested"}
            within = calls_sharing_error(error, self.serial) if tried else None
            attach_report(error, Report(attempts, elapsed, reason, retry_at, report_counter.next(), within))
        if (self.number > 1 or reason in _LOGGED_REASONS) and logs.wants_failures():
            if failure is None and self.policy.overrides:
                failure = _classified(error)
            logs.log_give_up(self.name, failure, self.number, self._most(failure), reason, error)
        if has_subscribers():
            from outlast.record.events import AttemptFailed, GaveUp  # noqa: PLC0415  # only subscribers need them

            failure = _with_texts(failure, error)
            if not told:  # a wait that took too long comes after it was
                publish(AttemptFailed(self.name, self.number, self._most(failure), failure))
            publish(GaveUp(self.name, self.number, elapsed, reason, failure))


def _classified(error: Exception) -> "Failure":
    """Return the failure, with its texts only where somebody will get it whole; the log makes its own."""
    return classify(error) if has_subscribers() else default_classifier().weigh(error)


def _with_texts(failure: "Failure | None", error: Exception) -> "Failure":
    return failure if failure is not None and failure.exception_name else classify(error)


def attempt_seconds_left(policy: "RetryPolicy", started: float | None, attempt_began: float | None) -> float | None:
    """Return the seconds left for an attempt: by its own timeout or the deadline, whichever is nearer."""
    now = clock.monotonic()
    limits = [
        since + limit - now
        for since, limit in ((started, policy.deadline), (attempt_began, policy.attempt_timeout))
        if since is not None and limit is not None
    ]
    return max(0.0, min(limits)) if limits else None


def _may_have_retry_hint(error: Exception) -> bool:
    """Tell, at little cost, whether an error can carry a wait that the other side asks for."""
    if error.__cause__ is not None:
        return True
    module = type(error).__module__
    if module == "builtins":
        return type(error) is ExceptionGroup
    if module.partition(".")[0] in FILES:
        return True
    try:
        return hasattr(error, "response") or hasattr(error, "retry_after") or hasattr(error, "headers")
    except Exception:  # noqa: BLE001  # a property of the user's; the classifier knows how to look
        return True


CURRENT_TASK: "ContextVar[Any]" = ContextVar("outlast.task", default=None)
"""The claimed task that a worker runs in this thread or coroutine; None outside of one."""
