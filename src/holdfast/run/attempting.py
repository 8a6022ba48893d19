"""What happens between a failed attempt and the next: judge, decide, tell, and say how long to wait.

Both attempt loops, the sync and the async, are a few lines around one `Attempting`. It exists only once something has
failed, so a call that succeeds pays for none of it.
"""

from contextvars import ContextVar

from holdfast import clock
from holdfast.classify import classify
from holdfast.classify.libraries import FILES
from holdfast.classify.peek import text_of
from holdfast.decide.retry_on import wants
from holdfast.failure import RETRYABLE
from holdfast.record.bus import has_subscribers, publish
from holdfast.run import logs
from holdfast.run.report import MARKS, Report, attach, attempt_of, report_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.decide.policy import RetryPolicy
    from holdfast.failure import Failure
    from holdfast.run.resources import Resource

__all__ = ["FAILED_ATTEMPTS", "RETRIES_OFF", "Attempting"]

RETRIES_OFF: "ContextVar[bool]" = ContextVar("holdfast_retries_off", default=False)
FAILED_ATTEMPTS: "ContextVar[list[int] | None]" = ContextVar("holdfast_failed_attempts", default=None)
"""Takes up the numbers of failed attempts, for whoever wants to count them."""
_TEXT_LIMIT = 4096


class Attempting:
    """One call from its first failure on.

    Args:
        policy: What decides.
        name: What is called, for logs and events.
        serial: Number of the newest report when the call began; a later one on an error comes from an inner retry.
        started: When the call began, on the monotonic clock; None where the policy has no deadline.
        resource: Its budget pays for the retries.
    """

    __slots__ = ("began", "history", "name", "number", "policy", "previous", "resource", "serial", "started")

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
        self.began = -1.0
        self.previous: float | None = None
        self.history: list[tuple[str, str, float | None]] = []

    def failed(self, error: Exception) -> float:
        """Decide on a failed attempt.

        Returns:
            Seconds to wait before the next attempt.

        Raises:
            Exception: The error itself, if there is none.
        """
        if self.began < 0:
            self.began = clock.monotonic()
        counted = FAILED_ATTEMPTS.get()
        if counted is not None:
            counted.append(self.number)
        failure, reason = self._wanted(error)
        if reason:
            raise self._given_up(error, failure, reason, None)
        if failure is None and (self.policy.overrides or _may_carry_a_hint(error)):
            failure = classify(error)
        delay, reason = self._wait(failure)
        if reason:
            raise self._given_up(error, failure, reason, None if failure is None else failure.retry_after)
        self._told(error, failure, delay)
        self.history.append((type(error).__name__, text_of(error)[:_TEXT_LIMIT], delay))
        self.previous = delay
        self.number += 1
        return delay

    def _wait(self, failure: "Failure | None") -> tuple[float, str]:
        """Return how long to wait for the next attempt, and the reason not to, where there is one."""
        policy = self.policy
        chosen = policy if failure is None else policy.for_category(failure.category)
        if self.number >= chosen.max_attempts:
            return 0.0, "exhausted"
        if failure is None:
            delay = policy.get_delay(self.number, previous=self.previous, chance=clock.chance)
        else:
            delay = policy.delay_after(failure, self.number, previous=self.previous, chance=clock.chance)
            if failure.capped:
                return delay, "deferred"
        left = self.time_left()
        if left is not None and (delay > left or left <= 0):
            asked = None if failure is None else failure.retry_after
            return delay, "deferred" if left > 0 and asked is not None and asked > left else "deadline"
        if self.resource is not None and not self.resource.pay_for_retry():
            return delay, "budget"
        return delay, ""

    def succeeded(self) -> None:
        """Tell that an attempt succeeded after others had failed."""
        if has_subscribers():
            from holdfast.record.events import Recovered  # noqa: PLC0415  # only subscribers need it

            publish(Recovered(self.name, self.number, clock.monotonic() - self.began))

    def time_left(self) -> float | None:
        """Return the seconds until the deadline, or None where there is none."""
        if self.started is None or self.policy.deadline is None:
            return None
        return max(0.0, self.started + self.policy.deadline - clock.monotonic())

    def _wanted(self, error: Exception) -> "tuple[Failure | None, str]":
        """Return the failure, where it was needed, and the reason not to retry, where there is one."""
        policy = self.policy
        report = report_of(error)
        if report is not None and report.serial > self.serial and not policy.nested:
            return None, "nested"
        if RETRIES_OFF.get():
            return None, "off"
        retry_on = policy.retry_on
        if isinstance(retry_on, frozenset):
            failure = classify(error)
            wanted = failure.retryable if retry_on == RETRYABLE else failure.category in retry_on
            return failure, "" if wanted else "permanent"
        return None, "" if wants(retry_on, error) else "permanent"

    def _told(self, error: Exception, failure: "Failure | None", delay: float) -> None:
        if logs.wants_retries():
            failure = failure or classify(error)
            logs.retrying(self.name, failure, self.number, self.policy.max_attempts, delay, error)
        if has_subscribers():
            from holdfast.record.events import AttemptFailed, Retrying  # noqa: PLC0415  # only subscribers need them

            failure = failure or classify(error)
            publish(AttemptFailed(self.name, self.number, self.policy.max_attempts, failure))
            publish(Retrying(self.name, self.number, self.policy.max_attempts, delay, failure))

    def _given_up(self, error: Exception, failure: "Failure | None", reason: str, asked: float | None) -> Exception:
        elapsed = clock.monotonic() - self.began
        if reason != "nested":
            kept = [*self.history, (type(error).__name__, text_of(error)[:_TEXT_LIMIT], None)]
            attempts = tuple(attempt_of(number, *each) for number, each in enumerate(kept, 1))
            retry_at = clock.now() + asked if reason == "deferred" and asked is not None else None
            attach(error, Report(attempts, elapsed, reason, retry_at, MARKS.next()))
        if self.number > 1 and logs.wants_failures():
            failure = failure or classify(error)
            logs.gave_up(self.name, failure, self.number, self.policy.max_attempts, reason)
        if has_subscribers():
            from holdfast.record.events import AttemptFailed, GaveUp  # noqa: PLC0415  # only subscribers need them

            failure = failure or classify(error)
            publish(AttemptFailed(self.name, self.number, self.policy.max_attempts, failure))
            publish(GaveUp(self.name, self.number, elapsed, reason, failure))
        return error


def _may_carry_a_hint(error: Exception) -> bool:
    """Tell, at little cost, whether an error can carry a wait that the other side asks for."""
    module = type(error).__module__
    if module == "builtins":
        return False
    if module.partition(".")[0] in FILES or error.__cause__ is not None:
        return True
    return any(getattr(error, name, None) is not None for name in ("retry_after", "response", "headers"))
