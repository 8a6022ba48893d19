"""The public face as a type checker sees it; checked by mypy and basedpyright, never run."""

# pyright: reportUnnecessaryTypeIgnoreComment=true

from typing import assert_type

import holdfast as hf
from holdfast.worker import ErrorClassifier

failure = hf.classify(ValueError("x"))
assert_type(failure, hf.Failure)
assert_type(hf.classify(hf.Evidence(http_status=503)), hf.Failure)
assert_type(failure.category, hf.Category)
assert_type(failure.retry_after, float | None)
assert_type(failure.fingerprint, str)
assert_type(hf.Failure.from_json(failure.to_json()), hf.Failure)
assert_type(hf.explain(ValueError("x")), hf.Explanation)
assert_type(hf.parse_retry_after("120"), int)
assert_type(hf.rate_limit_hint({"retry-after": "120"}), hf.RetryHint | None)
assert_type(ErrorClassifier().get_error_category(ValueError("x")), str)

policy = hf.RetryPolicy(max_attempts=4, retry_on=(ConnectionError,), backoff="exponential")
assert_type(policy.should_retry(ValueError("x"), attempt=1), bool)
assert_type(policy.get_delay(1), float)
assert_type(policy.replace(max_attempts=2), hf.RetryPolicy)


@hf.retry
def bare(url: str, *, depth: int = 0) -> bytes:
    return url.encode() * depth


@hf.retry(max_attempts=4, retry_on=(ConnectionError,))
def configured(url: str) -> bytes:
    return url.encode()


@hf.retry
async def coroutine(url: str) -> bytes:
    return url.encode()


assert_type(bare("x", depth=1), bytes)
assert_type(configured("x"), bytes)


async def use() -> None:
    assert_type(await coroutine("x"), bytes)


bare(1)  # type: ignore[arg-type]
hf.RetryPolicy(retries=3)  # type: ignore[call-arg]
