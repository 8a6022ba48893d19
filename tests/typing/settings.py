"""Settings given one by one: a wrong name and a wrong type are both seen before the program runs.

Checked by mypy and basedpyright, never run. Each line that is marked is an error, and a mark without one is reported.
"""

# pyright: reportUnnecessaryTypeIgnoreComment=true

from datetime import timedelta
from typing import Unpack, assert_type

import outlast
from outlast.decide.settings import PolicySettings

policy = outlast.RetryPolicy()


def fetch(url: str) -> bytes:
    return url.encode()


@outlast.retry(
    max_attempts=4,
    retry_on={"network"},
    backoff="exponential",
    base_delay=timedelta(seconds=1),
    max_delay=30,
    jitter=0.1,
    deadline=None,
    attempt_timeout=5,
    overrides={"rate_limit": {"base_delay": 60}},
    resource="api.example.com",
    nested=True,
    fallback=lambda error: b"",
)
def every_setting(url: str) -> bytes:
    return url.encode()


def my_retry(**settings: Unpack[PolicySettings]) -> outlast.RetryPolicy:
    """What users can write around it."""
    return outlast.RetryPolicy(**settings)


assert_type(every_setting("x"), bytes)
assert_type(outlast.retry(fetch, max_attempts=3)("x"), bytes)
assert_type(outlast.retry(fetch, policy=policy)("x"), bytes)
assert_type(outlast.retry(max_retries=3)(fetch)("x"), bytes)
assert_type(outlast.retry(policy=None)(fetch)("x"), bytes)
assert_type(outlast.with_policy(outlast.retry(fetch), policy, deadline=3)("x"), bytes)
assert_type(outlast.node(retry_policy=policy)(fetch)("x"), bytes)
assert_type(policy.replace(backoff=lambda retry: 0.5 * retry, jitter="equal"), outlast.RetryPolicy)
assert_type(my_retry(max_attempts=3), outlast.RetryPolicy)

# a wrong name
outlast.retry(max_attemps=3)  # type: ignore[call-overload]
outlast.retry(fetch, max_attemps=3)  # type: ignore[call-overload]
policy.replace(max_attemps=3)  # type: ignore[call-arg]
outlast.with_policy(fetch, max_attemps=3)  # type: ignore[call-arg]
outlast.node(max_attempts=3)  # type: ignore[call-overload]
my_retry(max_attemps=3)  # type: ignore[call-arg]

# a wrong type
outlast.retry(max_attempts="3")  # type: ignore[call-overload]
outlast.retry(deadline="30 s")  # type: ignore[call-overload]
outlast.retry(retry_on=3)  # type: ignore[call-overload]
outlast.retry(nested="no")  # type: ignore[call-overload]
outlast.retry(resource=5)  # type: ignore[call-overload]
outlast.retry(policy=3)  # type: ignore[call-overload]
outlast.retry(fallback=3)  # type: ignore[call-overload]
policy.replace(max_attempts="3")  # type: ignore[arg-type]
policy.replace(base_delay=None)  # type: ignore[arg-type]
outlast.with_policy(fetch, deadline="30 s")  # type: ignore[arg-type]
outlast.node(retries="3")  # type: ignore[call-overload]
outlast.node(retry_policy=3)  # type: ignore[call-overload]

# a wrong choice
outlast.RetryPolicy(backoff="cubic")  # type: ignore[arg-type]
outlast.retry(backoff="cubic")  # type: ignore[call-overload]
policy.replace(jitter="some")  # type: ignore[arg-type]

# what a call refuses
outlast.retry(policy=policy, max_attempts=3)  # type: ignore[call-overload]
outlast.node(retry_policy=policy, retries=3)  # type: ignore[call-overload]

# what cannot be changed
policy.overrides[outlast.Category.DATA] = policy  # type: ignore[index]
