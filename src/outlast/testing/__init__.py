"""Helpers for your own tests of failure handling, for any test framework; pytest gets fixtures.

>>> with fake_clock() as clock, inject_faults() as faults, record_decisions() as decisions:
...     faults.fail("shop.client.fetch", "rate_limit", retry_after=3, times=2)
...     collect()
>>> decisions.retries("fetch"), len(clock.waits)
(2, 2)

Names are imported on first use, because every run of pytest imports this package.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from outlast.testing.clock import FakeClock as FakeClock
    from outlast.testing.clock import fake_clock as fake_clock
    from outlast.testing.crash import Crashed as Crashed
    from outlast.testing.crash import crash_at as crash_at
    from outlast.testing.decisions import Decisions as Decisions
    from outlast.testing.decisions import record_decisions as record_decisions
    from outlast.testing.faults import Fault as Fault
    from outlast.testing.faults import Faults as Faults
    from outlast.testing.faults import NotReachedError as NotReachedError
    from outlast.testing.faults import failing as failing
    from outlast.testing.faults import inject_faults as inject_faults
    from outlast.testing.faults import sample_error as sample_error
    from outlast.testing.queue_drain import Drained as Drained
    from outlast.testing.queue_drain import drain as drain
    from outlast.testing.queue_drain import drain_async as drain_async
    from outlast.testing.store_fixtures import AppMaker as AppMaker
    from outlast.testing.store_fixtures import fresh_database as fresh_database
    from outlast.testing.store_fixtures import on_store as on_store

_HOMES = {
    "AppMaker": "outlast.testing.store_fixtures",
    "Crashed": "outlast.testing.crash",
    "Decisions": "outlast.testing.decisions",
    "Drained": "outlast.testing.queue_drain",
    "FakeClock": "outlast.testing.clock",
    "Fault": "outlast.testing.faults",
    "Faults": "outlast.testing.faults",
    "NotReachedError": "outlast.testing.faults",
    "crash_at": "outlast.testing.crash",
    "drain": "outlast.testing.queue_drain",
    "drain_async": "outlast.testing.queue_drain",
    "failing": "outlast.testing.faults",
    "fake_clock": "outlast.testing.clock",
    "fresh_database": "outlast.testing.store_fixtures",
    "inject_faults": "outlast.testing.faults",
    "on_store": "outlast.testing.store_fixtures",
    "record_decisions": "outlast.testing.decisions",
    "sample_error": "outlast.testing.faults",
}

__all__ = [
    "AppMaker",
    "Crashed",
    "Decisions",
    "Drained",
    "FakeClock",
    "Fault",
    "Faults",
    "NotReachedError",
    "crash_at",
    "drain",
    "drain_async",
    "failing",
    "fake_clock",
    "fresh_database",
    "inject_faults",
    "on_store",
    "record_decisions",
    "sample_error",
]


def __getattr__(name: str) -> object:
    """Import a public name on first use."""
    home = _HOMES.get(name)
    if home is None:
        message = f"module 'outlast.testing' has no attribute {name!r}"
        raise AttributeError(message)
    import importlib  # noqa: PLC0415  # imported late as well

    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names, imported or not."""
    return sorted({*globals(), *__all__})
