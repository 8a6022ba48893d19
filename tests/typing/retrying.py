"""Retry, nodes, blocks and pipelines as a type checker sees them; checked by mypy and basedpyright, never run."""

# pyright: reportUnnecessaryTypeIgnoreComment=true

from collections.abc import Callable
from datetime import timedelta
from typing import assert_type

import outlast
from outlast.testing import FakeClock, failing, fake_clock
from outlast.worker import ExponentialBackoffStrategy, LinearBackoffStrategy, RetryStrategyProtocol

policy = outlast.RetryPolicy(
    max_attempts=4,
    retry_on={outlast.Category.NETWORK},
    backoff=lambda retry: retry * 0.5,
    base_delay=timedelta(seconds=1),
    jitter="full",
    overrides={outlast.Category.RATE_LIMIT: {"base_delay": 60}},
)
assert_type(policy.replace(jitter=0.1), outlast.RetryPolicy)
assert_type(policy.preview(), outlast.Schedule)
assert_type(policy.for_category(outlast.Category.DATA), outlast.RetryPolicy)
assert_type(outlast.preset("blog"), outlast.RetryPolicy)
assert_type(outlast.load_config("outlast.toml").policies["shop"], outlast.RetryPolicy)


@outlast.retry(policy=policy, fallback=lambda error: b"")
def fetch(url: str, *, depth: int = 0) -> bytes:
    return url.encode() * depth


@outlast.retry(max_attempts=3, deadline=timedelta(minutes=1))
async def fetch_async(url: str) -> bytes:
    return url.encode()


@outlast.retry(mode="observe", max_attempts=3)
def observed(url: str, *, depth: int = 0) -> bytes:
    return url.encode() * depth


@outlast.retry(policy=policy, mode="observe")
async def observed_async(url: str) -> bytes:
    return url.encode()


assert_type(observed("x", depth=1), bytes)
observed(1)  # type: ignore[arg-type]
outlast.retry(mode=True)  # type: ignore[call-overload]


async def use_observed() -> None:
    assert_type(await observed_async("x"), bytes)


class Client:
    @outlast.retry
    def get(self, url: str) -> bytes:
        return url.encode()

    @outlast.retry(policy=policy)
    async def get_async(self, url: str) -> bytes:
        return url.encode()

    @classmethod
    @outlast.retry(policy=policy)
    def make(cls, name: str) -> "Client":
        return cls()

    @staticmethod
    @outlast.retry(policy=policy)
    def parse(text: str) -> int:
        return int(text)


@outlast.node(retries=3, retry_on=(ConnectionError,))
def load() -> list[int]:
    return [1]


@outlast.node
def total(numbers: list[int]) -> int:
    return sum(numbers)


@outlast.node(retry_policy=policy)
async def save(number: int) -> None:
    return None


assert_type(fetch("x", depth=2), bytes)
assert_type(Client().get("x"), bytes)
assert_type(Client.make("x"), Client)
assert_type(Client.parse("3"), int)
assert_type(load(), list[int])
assert_type(total([1]), int)
assert_type(outlast.call(fetch, "x", depth=1, policy=policy), bytes)
assert_type(outlast.call(total, [1]), int)
assert_type(outlast.with_policy(fetch, max_attempts=2)("x", depth=1), bytes)
assert_type(outlast.with_policy(Client().get, policy)("x"), bytes)
assert_type(outlast.attempts(policy), outlast.Attempts)
assert_type(outlast.current_attempt(), outlast.CurrentAttempt | None)
assert_type(outlast.report_of(ValueError("x")), outlast.Report | None)
assert_type(outlast.resource("x", breaker=outlast.BreakerSettings(), budget=outlast.Budget()), outlast.Resource)
assert_type(outlast.subscribe(print, outlast.events.GaveUp), Callable[[], None])
assert_type(failing(fetch, [ConnectionError("x"), None])("x", depth=1), bytes)

for attempt in outlast.attempts(policy, name="upload"):
    with attempt:
        assert_type(attempt.number, int)
        assert_type(attempt.time_left, float | None)

with outlast.no_retries(), outlast.resource("x") as guard, fake_clock() as clock:
    assert_type(guard, outlast.Resource)
    assert_type(clock, FakeClock)
    assert_type(clock.waits, list[float])

trace = outlast.Trace()
result: int = outlast.typed_pipeline(load, total, on_error=lambda error, step: 0, params={"a": 1}, trace=trace)


async def use() -> None:
    assert_type(await fetch_async("x"), bytes)
    assert_type(await Client().get_async("x"), bytes)
    assert_type(await outlast.call(fetch_async, "x", policy=policy), bytes)
    assert_type(await outlast.with_policy(fetch_async, max_attempts=2)("x"), bytes)
    assert_type(await save(1), None)
    async for each in outlast.attempts(policy):
        with each:
            assert_type(each.number, int)
    await outlast.typed_async_pipeline(load, total, save, on_step=lambda step, value: None)


strategies: list[RetryStrategyProtocol] = [ExponentialBackoffStrategy(), LinearBackoffStrategy()]


class Stubborn:
    def should_retry(self, error: Exception, attempt: int) -> bool:
        return attempt > 0

    def get_retry_delay(self, attempt: int) -> float:
        return 0.0


strategies.append(Stubborn())

fetch(1)  # type: ignore[arg-type]
fetch("x", width=1)  # type: ignore[call-arg]
Client().get(1)  # type: ignore[arg-type]
total("x")  # type: ignore[arg-type]
outlast.with_policy(fetch, max_attempts=2)(1)  # type: ignore[arg-type]
outlast.node(retry=3)  # type: ignore[call-overload]
strategies.append(object())  # type: ignore[arg-type]

outlast.RetryPolicy(retry_on={"network"}, overrides={"rate_limit": {"base_delay": 60.0}})
outlast.RetryPolicy(retry_on={outlast.Category.NETWORK}, overrides={outlast.Category.RATE_LIMIT: outlast.RetryPolicy()})
outlast.Rule(category="data", status=[418, 420])
