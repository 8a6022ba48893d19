"""The public face as a type checker sees it; checked by mypy and basedpyright, never run."""

# pyright: reportUnnecessaryTypeIgnoreComment=true

from datetime import timedelta
from typing import assert_type

import outlast
from outlast.http import AsyncRetryTransport, RetryTransport
from outlast.worker import ErrorClassifier

failure = outlast.classify(ValueError("x"))
assert_type(failure, outlast.Failure)
assert_type(outlast.classify(outlast.Evidence(http_status=503)), outlast.Failure)
assert_type(failure.category, outlast.Category)
assert_type(failure.retry_after, float | None)
assert_type(failure.fingerprint, str)
assert_type(outlast.Failure.from_json(failure.to_json()), outlast.Failure)
assert_type(outlast.explain(ValueError("x")), outlast.Explanation)
assert_type(outlast.parse_retry_after("120"), int)
assert_type(outlast.rate_limit_hint({"retry-after": "120"}), outlast.RetryHint | None)
assert_type(ErrorClassifier().get_error_category(ValueError("x")), str)

policy = outlast.RetryPolicy(max_attempts=4, retry_on=(ConnectionError,), backoff="exponential")
assert_type(policy.should_retry(ValueError("x"), attempt=1), bool)
assert_type(policy.get_delay(1), float)
assert_type(policy.replace(max_attempts=2), outlast.RetryPolicy)


@outlast.retry
def bare(url: str, *, depth: int = 0) -> bytes:
    return url.encode() * depth


@outlast.retry(max_attempts=4, retry_on=(ConnectionError,))
def configured(url: str) -> bytes:
    return url.encode()


@outlast.retry
async def coroutine(url: str) -> bytes:
    return url.encode()


@outlast.retry(policy)
def by_position(url: str, *, depth: int = 0) -> bytes:
    return url.encode() * depth


@outlast.retry(outlast.preset("etl"), fallback=lambda error: b"")
async def coroutine_by_position(url: str) -> bytes:
    return url.encode()


def seconds_to_wait(error: Exception) -> float | timedelta | bool:
    return timedelta(seconds=5) if isinstance(error, OSError) else False


def is_pending(value: bytes) -> bool:
    return value == b"pending"


@outlast.retry(retry_on=seconds_to_wait, retry_result=lambda value: 0 if value is None else False)
def with_verdicts(url: str) -> bytes:
    return url.encode()


@outlast.retry(policy, retry_result=is_pending)
async def with_result(url: str) -> bytes:
    return url.encode()


limited = outlast.resource("limited", rate="10/s")
RetryTransport(rate="10/s", per="credential")
AsyncRetryTransport(rate=10, per=lambda url, headers: url)
assert_type(with_verdicts("x"), bytes)
assert_type(outlast.call(configured, "x", policy=policy, retry_result=is_pending), bytes)
assert_type(bare("x", depth=1), bytes)
assert_type(configured("x"), bytes)
assert_type(by_position("x", depth=1), bytes)
assert_type(outlast.current_attempt(), outlast.CurrentAttempt | None)


app = outlast.App("memory://")


def host_of(url: str) -> str:
    return url


@app.task(resource=host_of, max_attempts=8, base_delay=2, retry_on=ConnectionError, timeout=5)
def scrape(url: str, *, depth: int = 0) -> bytes:
    return url.encode() * depth


assert_type(scrape.options(max_attempts=2, timeout=None, resource="x", delay=3).enqueue("x", depth=1).id, int)
assert_type(scrape("x"), bytes)


async def use() -> None:
    assert_type(await coroutine("x"), bytes)
    assert_type(await coroutine_by_position("x"), bytes)
    assert_type(await with_result("x"), bytes)
    async with limited as guard:
        assert_type(guard, outlast.Resource)


scrape.options(max_attempts=2).enqueue(1)  # type: ignore[arg-type]
scrape.options(max_attempts=2).enqueue("x", delay=1)  # type: ignore[call-arg]
scrape.options(retries=2)  # type: ignore[call-arg]
app.task(max_attempts="2")  # type: ignore[call-overload]
bare(1)  # type: ignore[arg-type]
by_position(1)  # type: ignore[arg-type]
outlast.retry(3)  # type: ignore[call-overload]
outlast.retry(policy, policy=policy)  # type: ignore[call-overload]
outlast.retry(policy, max_attempts=3)  # type: ignore[call-overload]
outlast.RetryPolicy(retries=3)  # type: ignore[call-arg]
outlast.RetryPolicy(retry_on=lambda error: "yes")  # type: ignore[arg-type,return-value]
outlast.attempts(policy, retry_result=is_pending)  # type: ignore[arg-type]
outlast.resource("x", rate=timedelta(seconds=1))  # type: ignore[arg-type]

scenario = outlast.Scenario(rate=5.0, other_side=outlast.OtherSide(latency=0.1))
simulation = outlast.simulate("worker", scenario, runs=2)
assert_type(simulation, outlast.Simulation)
assert_type(simulation.amplification, float)
assert_type(simulation.completed, float)
