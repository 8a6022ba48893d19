"""Converts a policy to urllib3's `Retry`: ``HTTPAdapter(max_retries=as_urllib3_retry(policy))``."""

from typing import Any

import urllib3

from outlast import clock
from outlast.classify import rate_limit_hint
from outlast.classify.statuses import category_of_status
from outlast.decide.policy import RetryPolicy

_RETRYABLE_STATUSES = frozenset(
    status for status in range(400, 600) if (category := category_of_status(status)) is not None and category.retryable
)


_MAX_REDIRECTS = 20  # as browsers do; redirects use no attempt, so a circle needs a limit


class _WaitTooLongError(urllib3.exceptions.ResponseError):
    """The server asks for a wait beyond the cap or the deadline."""

    text = "the server asks for a wait that is too long to sleep"


class PolicyRetry(urllib3.Retry):
    """urllib3's `Retry` with the waits of a policy; a Retry-After of the server comes first.

    A redirect is not a failure and uses no attempt: redirects have a limit of their own.
    """

    policy: RetryPolicy

    def new(self, **changes: Any) -> "PolicyRetry":
        """Return the next state, with the policy kept."""
        following = super().new(**changes)
        following.policy = self.policy
        return following

    def increment(
        self,
        method: str | None = None,
        url: str | None = None,
        response: Any = None,
        error: Exception | None = None,
        _pool: Any = None,
        _stacktrace: Any = None,
    ) -> "PolicyRetry":
        """Return the next state.

        Raises:
            MaxRetryError: If attempts are used up, or the response asks for a wait that is too long to sleep; then the
                response is returned.
        """
        if response is not None and self._too_long(response):
            raise urllib3.exceptions.MaxRetryError(_pool, str(url), _WaitTooLongError(_WaitTooLongError.text))
        counted = self
        if response is not None and self.redirect is not None and response.get_redirect_location():
            counted = self.new(total=self.total + 1) if type(self.total) is int else self  # urllib3 subtracts one
        return super(PolicyRetry, counted).increment(method, url, response, error, _pool, _stacktrace)

    def _too_long(self, response: Any) -> bool:
        given = response.headers.get("Retry-After")
        hint = rate_limit_hint({"retry-after": given}) if given else None
        limit = self.policy.deadline
        return hint is not None and (hint.capped or (limit is not None and hint.seconds > limit))

    def get_backoff_time(self) -> float:
        """Return the seconds to wait before the next attempt."""
        failed = sum(each.redirect_location is None for each in self.history)
        return self.policy.get_delay(failed, chance=clock.chance) if failed else 0.0


def as_urllib3_retry(policy: RetryPolicy, **settings: Any) -> PolicyRetry:
    """Return a policy as urllib3's `Retry`: attempts, waits, and the statuses that the classifier calls retryable.

    The methods are those that urllib3 calls idempotent. `retry_on`, deadline and overrides are ignored. Redirects use
    no attempt; up to 20 are followed.

    Args:
        policy: The policy with the attempts and waits.
        settings: Further settings of urllib3's `Retry`, which take precedence: ``redirect=5`` sets another limit, and
            ``redirect=None`` counts redirects as attempts, as urllib3 does.
    """
    given = {
        "total": policy.max_attempts - 1,
        "redirect": _MAX_REDIRECTS,
        "status_forcelist": _RETRYABLE_STATUSES,
        "respect_retry_after_header": True,
        "raise_on_status": False,
        **settings,
    }
    retry = PolicyRetry(**given)
    retry.policy = policy
    return retry
