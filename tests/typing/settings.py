"""Settings given one by one: a wrong name and a wrong type are both seen before the program runs.

Checked by mypy and basedpyright, never run. Each line that is marked is an error, and a mark without one is reported.
"""

# pyright: reportUnnecessaryTypeIgnoreComment=true

from datetime import timedelta
from typing import Unpack, assert_type

import holdfast as hf
from holdfast.decide.settings import PolicySettings

policy = hf.RetryPolicy()


def fetch(url: str) -> bytes:
    return url.encode()


@hf.retry(
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


def my_retry(**settings: Unpack[PolicySettings]) -> hf.RetryPolicy:
    """What users can write around it."""
    return hf.RetryPolicy(**settings)


assert_type(every_setting("x"), bytes)
assert_type(hf.retry(fetch, max_attempts=3)("x"), bytes)
assert_type(hf.retry(fetch, policy=policy)("x"), bytes)
assert_type(hf.retry(max_retries=3)(fetch)("x"), bytes)
assert_type(hf.retry(policy=None)(fetch)("x"), bytes)
assert_type(hf.with_policy(hf.retry(fetch), policy, deadline=3)("x"), bytes)
assert_type(hf.node(retry_policy=policy)(fetch)("x"), bytes)
assert_type(policy.replace(backoff=lambda retry: 0.5 * retry, jitter="equal"), hf.RetryPolicy)
assert_type(my_retry(max_attempts=3), hf.RetryPolicy)

# a wrong name
hf.retry(max_attemps=3)  # type: ignore[call-overload]
hf.retry(fetch, max_attemps=3)  # type: ignore[call-overload]
policy.replace(max_attemps=3)  # type: ignore[call-arg]
hf.with_policy(fetch, max_attemps=3)  # type: ignore[call-arg]
hf.node(max_attempts=3)  # type: ignore[call-overload]
my_retry(max_attemps=3)  # type: ignore[call-arg]

# a wrong type
hf.retry(max_attempts="3")  # type: ignore[call-overload]
hf.retry(deadline="30 s")  # type: ignore[call-overload]
hf.retry(retry_on=3)  # type: ignore[call-overload]
hf.retry(nested="no")  # type: ignore[call-overload]
hf.retry(resource=5)  # type: ignore[call-overload]
hf.retry(policy=3)  # type: ignore[call-overload]
hf.retry(fallback=3)  # type: ignore[call-overload]
policy.replace(max_attempts="3")  # type: ignore[arg-type]
policy.replace(base_delay=None)  # type: ignore[arg-type]
hf.with_policy(fetch, deadline="30 s")  # type: ignore[arg-type]
hf.node(retries="3")  # type: ignore[call-overload]
hf.node(retry_policy=3)  # type: ignore[call-overload]

# a wrong choice
hf.RetryPolicy(backoff="cubic")  # type: ignore[arg-type]
hf.retry(backoff="cubic")  # type: ignore[call-overload]
policy.replace(jitter="some")  # type: ignore[arg-type]

# what a call refuses
hf.retry(policy=policy, max_attempts=3)  # type: ignore[call-overload]
hf.node(retry_policy=policy, retries=3)  # type: ignore[call-overload]

# what cannot be changed
policy.overrides[hf.Category.DATA] = policy  # type: ignore[index]
