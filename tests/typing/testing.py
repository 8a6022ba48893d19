"""What users test with, as a type checker sees it; checked by mypy and basedpyright, never run."""

# pyright: reportUnnecessaryTypeIgnoreComment=true

from typing import assert_type

import outlast
from outlast.testing import (
    AppMaker,
    Crashed,
    Decisions,
    Drained,
    FakeClock,
    Fault,
    Faults,
    crash_at,
    drain,
    drain_async,
    failing,
    fake_clock,
    fresh_database,
    inject_faults,
    on_store,
    record_decisions,
    sample_error,
)

app = outlast.App("memory://")
outlast.point("after-upload")


def fetch(url: str) -> bytes:
    return url.encode()


async def fetch_async(url: str) -> bytes:
    return url.encode()


assert_type(failing(fetch, [TimeoutError(), ConnectionError, None])("x"), bytes)
assert_type(sample_error(outlast.Category.NETWORK), Exception)
assert_type(sample_error("rate_limit", retry_after=3), Exception)
assert_type(drain(app), Drained)
assert_type(drain(app).why, tuple[str, ...])
assert_type(crash_at("after-upload", fetch, "x", after=1, env={"A": "b"}), Crashed)
assert_type(crash_at("after-upload", ["python", "-m", "shop"]).code, int)


async def use() -> None:
    assert_type(await drain_async(app), Drained)
    assert_type(await failing(fetch_async, [TimeoutError()])("x"), bytes)


with fake_clock() as clock, inject_faults() as faults, record_decisions() as decisions:
    assert_type(clock, FakeClock)
    assert_type(clock.waits, list[float])
    assert_type(faults, Faults)
    assert_type(faults.fail("shop.fetch", outlast.Category.NETWORK, times=2), Fault)
    assert_type(faults.fail("shop.fetch", ConnectionError, rate=0.2, seed=1), Fault)
    assert_type(faults.fail("shop.fetch", ConnectionError("x"), after=3).failed, int)
    assert_type(decisions, Decisions)
    assert_type(decisions.retries("fetch", category="network"), int)
    assert_type(decisions.waits(), list[float])
    assert_type(decisions.failures(), list[outlast.Failure])

with on_store(app, "sqlite:///x.db") as moved, fresh_database("postgresql://localhost/postgres") as url:
    assert_type(moved, outlast.App)
    assert_type(url, str)


def test_of_a_user(outlast_app: AppMaker, outlast_faults: Faults) -> None:
    assert_type(outlast_app(), outlast.App)
    assert_type(outlast_app(app), outlast.App)
    assert_type(outlast_app(lease=5), outlast.App)


faults.fail("shop.fetch", 5)  # type: ignore[arg-type]
drain("app")  # type: ignore[arg-type]
