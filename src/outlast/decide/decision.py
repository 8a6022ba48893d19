"""The one decider: what happens after a failed attempt, wherever it was made.

`decide` takes the failure, the policy and a `DecisionState`. Calls, HTTP requests, polls, targets of jobs and tasks
differ only by the state. It is pure: time, chance and the refusal of a resource are part of the state.
"""

from enum import StrEnum

from outlast.classify import MAX_RETRY_AFTER_SECONDS
from outlast.classify.safe_access import contain
from outlast.decide.policy import verdict_on
from outlast.errors import RetryableError
from outlast.failure import Category, Frozen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from outlast.decide.policy import RetryPolicy
    from outlast.failure import Failure


class Place(StrEnum):
    """Where an attempt was made."""

    CALL = "call"
    HTTP = "http"
    POLL = "poll"
    TARGET = "target"
    TASK = "task"


class DecisionReason(StrEnum):
    """Why a decision was made."""

    BACKOFF = "backoff"
    """The policy waits and retries."""
    HINT = "hint"
    """The other side said how long to wait."""
    VERDICT = "verdict"
    """The function given as `retry_on` or `retry_result` said how long to wait."""
    DEFERRED = "deferred"
    """The wait is too long to sleep, or uses no attempt here."""
    EXHAUSTED = "exhausted"
    """All attempts are used."""
    PERMANENT = "permanent"
    """The policy does not retry this kind of error."""
    DEADLINE = "deadline"
    """There is no time for another attempt."""
    NESTED = "nested"
    """An inner retry already gave up."""
    OFF = "off"
    """Retries are switched off."""
    BUDGET = "budget"
    """The retry budget of the resource is used up."""
    BREAKER = "breaker"
    """The circuit breaker of the resource is open."""
    BROKEN = "broken"
    """A function of the policy raised an error, or returned something that is not a verdict."""
    EXPIRED = "expired"
    """The task would expire, or was deferred for too long."""
    CRASH = "crash"
    """The task crashed its worker too often."""
    UNDECODABLE = "undecodable"
    """The payload of the task cannot be read."""
    UNREADABLE = "unreadable"
    """The error could not be judged, because its own code raised."""
    CANARY = "canary"
    """The canary of a replay gets one attempt."""
    ABORTED = "aborted"
    """The failure would meet every other target too, or the handler asked to stop."""
    SKIPPED = "skipped"
    """The handler skipped the target."""


class Retry(Frozen):
    """Retry after `delay` seconds; this uses an attempt."""

    delay: float
    reason: DecisionReason
    __match_args__ = ("delay", "reason")

    def __init__(self, delay: float, reason: DecisionReason = DecisionReason.BACKOFF) -> None:
        fields = self.__dict__
        fields["delay"], fields["reason"] = delay, reason


class Defer(Frozen):
    """Try again in `delay` seconds, later than can be waited for here. In the queue, this uses no attempt."""

    delay: float
    reason: DecisionReason
    __match_args__ = ("delay", "reason")

    def __init__(self, delay: float, reason: DecisionReason = DecisionReason.DEFERRED) -> None:
        fields = self.__dict__
        fields["delay"], fields["reason"] = delay, reason


class _Final(Frozen):
    reason: DecisionReason
    __match_args__ = ("reason",)

    def __init__(self, reason: DecisionReason) -> None:
        self.__dict__.update(reason=reason)


class Fail(_Final):
    """Give up."""

    reason: DecisionReason


class Abort(_Final):
    """Give up, and stop the whole job."""

    reason: DecisionReason


class Skip(_Final):
    """Leave this one out; it is not a failure."""

    reason: DecisionReason


Decision = Retry | Defer | Fail | Abort | Skip


class RetriedResult(RetryableError):  # noqa: N818  # a signal
    """Stands for a returned value that `retry_result` does not accept.

    Its text names only the type of the value, which may be secret.

    Attributes:
        value: The returned value.
        wait: Seconds to wait before the next attempt; None for the backoff of the policy.
    """

    def __init__(self, value: object, wait: float | None) -> None:
        super().__init__(f"retry_result did not accept the returned {type(value).__qualname__}")
        self.value, self.wait = value, wait


class DecisionState:
    """What `decide` has to know about a failed attempt besides the failure and the policy.

    Attributes:
        place: Where the attempt was made.
        attempt: Number of failed attempts, including this one.
        wanted: Whether the policy retries this kind of error; None if its function raised.
        wait: Seconds to wait instead of any other wait, as the function given as `retry_on` said; None if it did not.
        previous: The wait before this attempt in seconds, if there was one.
        time_left: Seconds until the deadline; None without one.
        timed_out: Whether the attempt was ended by a time limit of ours.
        nested: Whether a retry inside the attempt already gave up on the error.
        retries_off: Whether retries are switched off.
        patience: Longest wait in seconds that the other side may ask for; a longer one is deferred. None for no limit.
        deferred_for: Seconds since a task was first deferred.
        expires_in: Seconds until a task expires; None for never.
        counts_own_waits: Whether a `RateLimitError` of user code with its own `retry_after` uses an attempt of a task.
        canary: Whether the task is the canary of a replay.
        exhausted: Whether another engine that runs the task has used up its own retries.
        aborts: Whether the handler asked to stop the job.
        skips: Whether the handler asked to skip the target.
        chance: Returns a random number in [0, 1); None for the system's.
        on_broken: Called with what raised, ``retry_on`` or ``backoff``, and its error.
    """

    place: Place = Place.CALL
    attempt: int = 1
    wanted: bool | None = True
    wait: float | None = None
    previous: float | None = None
    time_left: float | None = None
    timed_out: bool = False
    nested: bool = False
    retries_off: bool = False
    patience: float | None = None
    deferred_for: float = 0.0
    expires_in: float | None = None
    counts_own_waits: bool = False
    canary: bool = False
    exhausted: bool = False
    aborts: bool = False
    skips: bool = False
    chance: "Callable[[], float] | None" = None
    on_broken: "Callable[[str, BaseException], object] | None" = None

    def __init__(self, **facts: object) -> None:
        for name, value in facts.items():
            if name not in DecisionState.__annotations__:
                raise TypeError(f"{name!r} is not a fact of a failed attempt")
            setattr(self, name, value)

    def refusal(self) -> DecisionReason | None:
        """Return why the resource allows no retry, BREAKER or BUDGET; None if it does. Asked last, as it may pay."""
        return None

    def broken(self, what: str, error: BaseException) -> None:
        """Report that a function of the user's policy raised an error."""
        if self.on_broken is not None:
            self.on_broken(what, error)

    def ask_policy(self, policy: "RetryPolicy", error: BaseException, failure: "Failure | None") -> None:
        """Set `wanted` and `wait` by asking the policy about an error; a function that raises is reported."""
        if type(error) is RetriedResult:
            self.wanted, self.wait = True, error.wait
            return
        try:
            self.wanted, self.wait = verdict_on(policy.retry_on, error, failure)
        except BaseException as mistake:  # noqa: BLE001  # a function of the user's, or code of the error at hand
            contain(mistake)
            self.wanted = self.wait = None
            self.broken("retry_on", mistake)


DEFER_LIMIT = 7 * 86400.0
"""Seconds for which a task may be deferred before it fails as expired."""
QUEUE_JITTER = 0.1
"""Jitter of the waits of tasks if the policy sets none."""
# Calls that Outlast itself refused, with the seconds to defer them if the error names no time.
_OWN_REFUSALS = {
    "BreakerOpenError": 1.0,
    "ConcurrencyLimitError": 0.1,
    "CoolingDownError": 1.0,
    "LocalRateLimitError": 1.0,
    "ResourceUnavailableError": 1.0,
}
_UNSENT = ("CoolingDownError", "LocalRateLimitError")  # errors of HTTP requests that would have waited for too long
ABORT_CATEGORIES = frozenset(
    {
        Category.ACCESS_DENIED,
        Category.AUTHENTICATION,
        Category.QUOTA_EXHAUSTED,
        Category.CONFIGURATION,
        Category.INTEGRITY,
    }
)
"""Failures that every other target would meet too, or that show a mistake in the program."""


def decide(failure: "Failure | None", policy: "RetryPolicy", state: DecisionState) -> Decision:
    """Decide what happens after a failed attempt.

    Args:
        failure: The classified error; None if the policy goes by types alone and the error can carry no hint.
        policy: The policy.
        state: Where the attempt was made, and what is left.
    """
    if state.place is Place.TARGET:
        return _decide_target(failure, policy, state)
    return _decide(failure, policy, state)


def _decide(failure: "Failure | None", policy: "RetryPolicy", state: DecisionState) -> Decision:  # noqa: C901, PLR0911, PLR0912  # the rules in their order, one below the other
    if state.canary:
        return Fail(DecisionReason.CANARY)
    if failure is not None and failure.unreadable:
        return Fail(DecisionReason.UNREADABLE)
    if state.exhausted:
        return Fail(DecisionReason.EXHAUSTED if state.wanted else DecisionReason.PERMANENT)
    if failure is not None and state.place is not Place.CALL:
        wait = deferral_seconds(failure, policy, state)
        if wait is not None:
            return Fail(DecisionReason.EXPIRED) if wait > _deferral_left(state) else Defer(wait)
    if state.nested and not policy.nested:
        return Fail(DecisionReason.NESTED)
    if state.retries_off:
        return Fail(DecisionReason.OFF)
    if state.timed_out and state.time_left == 0:
        return Fail(DecisionReason.DEADLINE)
    if state.wanted is None:
        return Fail(DecisionReason.BROKEN)
    if not state.wanted:
        return Fail(DecisionReason.PERMANENT)
    if state.attempt >= (policy if failure is None else policy.for_category(failure.category)).max_attempts:
        return Fail(DecisionReason.EXHAUSTED)
    try:
        delay = _delay(failure, policy, state)
    except BaseException as error:  # noqa: BLE001  # a backoff function of the user's; the failure matters more
        contain(error)
        state.broken("backoff", error)
        return Fail(DecisionReason.BROKEN)
    hint = failure.retry_after if failure is not None and state.wait is None else state.wait
    asked = hint is not None or (failure is not None and failure.category is Category.RATE_LIMIT)
    if asked and state.place is not Place.TASK and _is_too_long(failure, hint, delay, state):
        return Defer(delay if hint is None else hint)
    if state.time_left is not None and delay >= state.time_left:
        if asked and state.time_left > 0:
            return Defer(delay if hint is None else hint)
        return Fail(DecisionReason.DEADLINE)
    if state.expires_in is not None and delay > state.expires_in:
        return Fail(DecisionReason.EXPIRED)
    refusal = state.refusal()
    if refusal is not None:
        return Fail(refusal)
    if state.wait is not None:
        return Retry(delay, DecisionReason.VERDICT)
    return Retry(delay, DecisionReason.BACKOFF if hint is None else DecisionReason.HINT)


def _delay(failure: "Failure | None", policy: "RetryPolicy", state: DecisionState) -> float:
    if state.wait is not None:
        return state.wait
    if failure is None:
        return policy.get_delay(state.attempt, previous=state.previous, chance=state.chance)
    unset = QUEUE_JITTER if state.place is Place.TASK else None
    return policy.delay_after(failure, state.attempt, previous=state.previous, chance=state.chance, unset_jitter=unset)


def _is_too_long(failure: "Failure | None", hint: float | None, delay: float, state: DecisionState) -> bool:
    """Return whether a wait that the other side or a verdict asked for is not slept through."""
    capped = failure is not None and failure.capped and state.wait is None
    too_long = (hint or 0.0) > MAX_RETRY_AFTER_SECONDS
    return capped or too_long or (state.patience is not None and delay > state.patience)


def deferral_seconds(failure: "Failure", policy: "RetryPolicy", state: DecisionState) -> float | None:
    """Return the seconds to defer a request, poll or task; None if the failure uses an attempt.

    Tasks and polls never sleep on a wait that the other side asks for. A call that Outlast itself refused uses no
    attempt either. If a function of the policy returned a wait, a task uses an attempt.
    """
    requested = failure.retry_after
    if state.place is Place.HTTP or state.place is Place.TARGET:
        return requested if state.place is Place.HTTP and failure.exception_name in _UNSENT else None
    if failure.exception_name in _OWN_REFUSALS:
        refused = requested or _OWN_REFUSALS[failure.exception_name]
        return refused if state.wanted or state.place is Place.POLL else None
    if state.place is Place.POLL:
        if failure.category is Category.RATE_LIMIT:
            return requested or _own_wait(failure, policy, state)
        answered = failure.http_status is not None or failure.category is Category.QUOTA_EXHAUSTED
        return requested if requested and answered else None
    if state.wait is not None:
        return None
    if failure.category is Category.QUOTA_EXHAUSTED:
        return requested
    instructed = failure.exact and (state.counts_own_waits or failure.category is not Category.RATE_LIMIT)
    return requested if requested and not instructed and state.wanted else None


def _own_wait(failure: "Failure", policy: "RetryPolicy", state: DecisionState) -> float | None:
    """Return the policy's own wait after a rate limit without a hint; None if its backoff function raises."""
    try:
        return policy.delay_after(failure, 1, chance=state.chance)
    except BaseException as error:  # noqa: BLE001  # a backoff function of the user's; the failure matters more
        contain(error)
        state.broken("backoff", error)
        return None


def _deferral_left(state: DecisionState) -> float:
    """Return the seconds for which a task may still be deferred; polls and requests have no such limit."""
    if state.place is not Place.TASK:
        return float("inf")
    return DEFER_LIMIT - state.deferred_for if state.expires_in is None else state.expires_in


def _decide_target(failure: "Failure | None", policy: "RetryPolicy", state: DecisionState) -> Decision:
    """Decide on a target of a job: a retry as in any call, else whether the target or the whole job fails."""
    if state.skips:
        return Skip(DecisionReason.SKIPPED)
    if state.aborts:
        return Abort(DecisionReason.ABORTED)
    decision = _decide(failure, policy, state)
    if isinstance(decision, Retry) or failure is None:
        return decision
    quota = failure.category is Category.QUOTA_EXHAUSTED
    if failure.retry_after is not None and (quota or decision.reason is DecisionReason.NESTED):
        return Defer(failure.retry_after)
    return Abort(DecisionReason.ABORTED) if failure.category in ABORT_CATEGORIES else decision


class AlertKind(StrEnum):
    """How an alert relates to the previous one on the same subject."""

    FIRST = "first"
    CHANGED = "changed"
    REMINDER = "reminder"
    RECOVERED = "recovered"


def next_alert_kind(open_state: str | None, state: str | None) -> AlertKind | None:
    """Return the kind of alert to send; None for no alert.

    Args:
        open_state: The state in the last alert on the subject; None if there was none, or it has recovered since.
        state: The current state; None if all is well.
    """
    if state is None:
        return None if open_state is None else AlertKind.RECOVERED
    if open_state is None:
        return AlertKind.FIRST
    return None if open_state == state else AlertKind.CHANGED
