"""Random calls that fail: the errors of their attempts, the policy, and what else the decider has to know.

All times are multiples of a power of two, so that sums of them are exact and can be compared without a tolerance.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta

import httpx
from hypothesis import example
from hypothesis import strategies as st

import outlast
from outlast import Category, RetryPolicy, errors
from outlast.decide.decision import DEFER_LIMIT

URL = "https://api.test/items"
MOST_ATTEMPTS = 4
_BUILT_IN = {
    "ValueError": ValueError,
    "TimeoutError": TimeoutError,
    "ConnectionResetError": ConnectionResetError,
    "httpx.ConnectError": httpx.ConnectError,
    "httpx.ReadTimeout": httpx.ReadTimeout,
}
_WITH_WAIT = (
    "NetworkError", "RateLimitError", "TemporaryAPIError", "DatabaseBusyError", "QuotaExhaustedError",
    "BreakerOpenError", "ConcurrencyLimitError", "CoolingDownError", "LocalRateLimitError", "ResourceUnavailableError",
)  # fmt: skip
_WITHOUT_WAIT = ("AuthenticationError", "ConfigurationError", "ResourceNotFoundError", "SkipTarget", "AbortJob")
_STATUSES = (429, 503, 500, 404, 403, 401, 402)


@dataclass(frozen=True)
class Fault:
    """How one attempt fails.

    Attributes:
        kind: A status of an HTTP response, or the class of an error.
        wait: The wait that it asks for: a Retry-After header, or the `retry_after` of an error of Outlast.
        seconds: How long the attempt takes.
    """

    kind: int | str
    wait: str | float | None = None
    seconds: float = 0.0

    def response(self) -> httpx.Response | None:
        """Return the response; None if the attempt fails without one."""
        if isinstance(self.kind, str):
            return None
        headers = {} if self.wait is None else {"Retry-After": str(self.wait)}
        return httpx.Response(self.kind, headers=headers, request=httpx.Request("GET", URL))

    def error(self) -> Exception:
        """Return a new error."""
        response = self.response()
        if response is not None:
            return httpx.HTTPStatusError(f"HTTP {self.kind}", request=response.request, response=response)
        if self.kind in _BUILT_IN:
            return _BUILT_IN[self.kind]("it failed")
        made = getattr(errors, self.kind)
        return made("it failed", retry_after=self.wait) if self.kind in _WITH_WAIT else made("it failed")


@dataclass(frozen=True)
class Scenario:
    """A call that fails at every attempt.

    Attributes:
        faults: One for each attempt that there may be.
        policy: The policy.
        chance: The value of every random number.
        nested: Whether a retry inside each attempt has given up on its error.
        retries_off: Whether the call is made inside `outlast.no_retries`.
        budget: Retries that the budget of the resource allows; None without a resource.
        breaker_opens_at: The attempt at which the circuit breaker of the resource opens; None for never.
        patience: Longest wait in seconds that an HTTP request accepts.
        lease: Seconds in which an alert has to be sent.
        expires_in: Seconds until the task expires.
        deferred_for: Seconds since the task was first deferred.
        canary: Whether the task is the canary of a replay.
        exhausted: Whether Celery has used up its own retries of the task.
    """

    faults: tuple[Fault, ...]
    policy: RetryPolicy
    chance: float = 0.5
    nested: bool = False
    retries_off: bool = False
    budget: int | None = None
    breaker_opens_at: int | None = None
    patience: float | None = None
    lease: float = 100.0
    expires_in: float | None = None
    deferred_for: float = 0.0
    canary: bool = False
    exhausted: bool = False

    def with_policy(self, **changes: object) -> Scenario:
        """Return a copy with some settings of the policy changed."""
        return replace(self, policy=self.policy.replace(**changes))


def is_of_a_server(error):
    return isinstance(error, httpx.HTTPError | errors.RetryableError)


def never(error):
    return False


def broken_predicate(error):
    raise RuntimeError("a mistake in the predicate")


def five_seconds_for_servers(error):
    """Return a wait for errors of servers, zero for timeouts, and no retry for others."""
    if is_of_a_server(error):
        return 5.25
    return timedelta(0) if isinstance(error, TimeoutError) else False


def two_hours(error):
    return timedelta(hours=2)


VERDICTS = (five_seconds_for_servers, two_hours)
"""Functions of a policy that return waits."""


def not_a_verdict(error):
    return "yes"


def three_seconds(retry):
    return 3.0


def broken_backoff(retry):
    raise RuntimeError("a mistake in the backoff function")


def _quarters(least: float, most: float) -> st.SearchStrategy[float]:
    return st.integers(int(least * 4), int(most * 4)).map(lambda number: number / 4)


def _weighted(*choices: tuple[int, st.SearchStrategy]) -> st.SearchStrategy:
    """Draw from strategies, each so many times as often as its weight says.

    What ends a call at once is drawn rarely, because it hides all that may happen later.
    """
    numbered = [strategy for weight, strategy in choices for _ in range(weight)]
    return st.sampled_from(range(len(numbered))).flatmap(numbered.__getitem__)


def _rarely(value: object, *, otherwise: object) -> st.SearchStrategy:
    return st.sampled_from([otherwise] * 11 + [value])


_hints = st.one_of(
    st.none(),
    st.integers(0, 7200),
    st.sampled_from([0, 1, 2, 5, 30, 31, 3600, 3601]),
    st.sampled_from(["-5", "soon", "", "1e9", "nan", "9" * 30, "0.5", "Fri, 31 Dec 1999 23:59:59 GMT"]),
)
_stated_waits = st.one_of(
    st.none(),
    st.sampled_from([0.0, 0.25, 1.0, 30.0, 30.25, 3600.0, 3600.25, 700000.0, -1.0, float("inf")]),
    _quarters(0, 7200),
)
_durations = _weighted((3, st.just(0.0)), (1, _quarters(0, 60)))
faults = _weighted(
    (3, st.builds(Fault, st.sampled_from((429, 503, 500)), _hints, _durations)),
    (1, st.builds(Fault, st.sampled_from(_STATUSES), _hints, _durations)),
    (3, st.builds(Fault, st.sampled_from(_WITH_WAIT), _stated_waits, _durations)),
    (1, st.builds(Fault, st.sampled_from(_WITHOUT_WAIT), st.none(), _durations)),
    (2, st.builds(Fault, st.sampled_from(tuple(_BUILT_IN)), st.none(), _durations)),
)
_backoffs = _weighted(
    (9, st.sampled_from(["fixed", "linear", "exponential", three_seconds])), (1, st.just(broken_backoff))
)
_jitters = st.sampled_from([None, 0.0, "none", "full", "equal", "decorrelated", 0.25, 0.5])
_retry_on = _weighted(
    (6, st.sampled_from([None, outlast.RETRYABLE, Exception])),
    (2, st.just((ConnectionError, TimeoutError, httpx.HTTPError, errors.RetryableError))),
    (2, st.just({Category.RATE_LIMIT, Category.NOT_FOUND, Category.API_TEMPORARY, Category.QUOTA_EXHAUSTED})),
    (2, st.just(is_of_a_server)),
    (2, st.sampled_from(VERDICTS)),
    (1, st.sampled_from([never, broken_predicate, not_a_verdict])),
)
_attempts = st.sampled_from([1, 2, 3, 3, MOST_ATTEMPTS, MOST_ATTEMPTS])
_overrides = st.fixed_dictionaries(
    {},
    optional={
        "max_attempts": _attempts,
        "base_delay": _quarters(0, 30),
        "backoff": _backoffs,
        "jitter": _jitters,
    },
)
policies = st.builds(
    RetryPolicy,
    max_attempts=_attempts,
    retry_on=_retry_on,
    backoff=_backoffs,
    base_delay=_quarters(0, 8),
    max_delay=_quarters(0, 60),
    jitter=_jitters,
    deadline=_weighted((1, st.none()), (1, _quarters(1, 200))),
    overrides=st.none() | st.dictionaries(st.sampled_from([Category.RATE_LIMIT, Category.NETWORK]), _overrides),
    nested=st.booleans(),
)
scenarios = st.builds(
    Scenario,
    faults=st.lists(faults, min_size=MOST_ATTEMPTS, max_size=MOST_ATTEMPTS).map(tuple)
    | faults.map(lambda fault: (fault,) * MOST_ATTEMPTS),
    policy=policies,
    chance=st.integers(0, 7).map(lambda number: number / 8),
    nested=_rarely(True, otherwise=False),
    retries_off=_rarely(True, otherwise=False),
    budget=st.sampled_from([None, None, None, 1, 2]),
    breaker_opens_at=st.sampled_from([None, None, None, None, None, 1, 2, 3]),
    patience=_weighted((2, st.none()), (1, _quarters(0, 120))),
    lease=_quarters(1, 200),
    expires_in=_weighted((2, st.none()), (1, _quarters(0, 200)), (1, _quarters(200, 8000))),
    deferred_for=st.sampled_from([0.0, 0.0, 86400.0, DEFER_LIMIT - 60.0, DEFER_LIMIT + 1.0]),
    canary=_rarely(True, otherwise=False),
    exhausted=_rarely(True, otherwise=False),
)


def _always(fault: Fault, state: dict | None = None, **settings: object) -> Scenario:
    """Return a scenario in which every attempt fails alike; by default the policy retries every Exception."""
    policy = RetryPolicy(**{"max_attempts": MOST_ATTEMPTS, "retry_on": Exception, "base_delay": 2.0} | settings)
    return Scenario((fault,) * MOST_ATTEMPTS, policy, **(state or {}))


_CORNER_CASES = [
    _always(Fault(429), retry_on=None),
    _always(Fault(429, 5), jitter="full"),
    _always(Fault(429, 90), deadline=60.0),
    _always(Fault(503, 90), {"patience": 60.0}),
    _always(Fault(503, 7200)),
    _always(Fault(402, 600)),
    _always(Fault(500), backoff="exponential", jitter="decorrelated"),
    _always(Fault(429), backoff=broken_backoff),
    _always(Fault(500), retry_on=broken_predicate),
    _always(Fault(500), retry_on=not_a_verdict),
    _always(Fault(500), retry_on=five_seconds_for_servers, jitter="full"),
    _always(Fault(429, 30), retry_on=five_seconds_for_servers),
    _always(Fault(429, 7200), retry_on=five_seconds_for_servers),
    _always(Fault(402, 600), retry_on=five_seconds_for_servers),
    _always(Fault("CoolingDownError", 5.0), retry_on=five_seconds_for_servers),
    _always(Fault("TimeoutError"), retry_on=five_seconds_for_servers),
    _always(Fault(500), retry_on=five_seconds_for_servers, deadline=8.0),
    _always(Fault(500), {"patience": 2.0}, retry_on=five_seconds_for_servers),
    _always(Fault(500), {"expires_in": 3.0}, retry_on=five_seconds_for_servers),
    _always(Fault(500), retry_on=two_hours),
    _always(Fault("TimeoutError", seconds=20.0), deadline=50.0),
    _always(Fault("TimeoutError"), overrides={"network": {"max_attempts": 2}}),
    _always(Fault("CoolingDownError", 5.0)),
    _always(Fault("BreakerOpenError")),
    _always(Fault("RateLimitError", 5.0)),
    _always(Fault("NetworkError", 700000.0)),
    _always(Fault("AuthenticationError")),
    _always(Fault("AbortJob")),
    _always(Fault("SkipTarget")),
    _always(Fault(500), {"nested": True}),
    _always(Fault(500), {"retries_off": True}),
    _always(Fault(500), {"budget": 2}),
    _always(Fault(500), {"breaker_opens_at": 2}),
    _always(Fault(500), {"lease": 3.0}),
    _always(Fault(500), {"expires_in": 3.0}),
    _always(Fault(429, 5), {"expires_in": 3.0}),
    _always(Fault(429, 5), {"deferred_for": DEFER_LIMIT}),
    _always(Fault(500), {"canary": True}),
    _always(Fault(500), {"exhausted": True}),
]


def with_corner_cases(test):
    """Have a test with random scenarios try these ones every time."""
    for each in _CORNER_CASES:
        test = example(scenario=each)(test)
    return test
