"""Helpers for your own tests of failure handling, for any test framework; pytest gets fixtures.

>>> with fake_clock() as clock, inject_faults() as faults, record_decisions() as decisions:
...     fault = faults.fail("shop.client.fetch", "rate_limit", retry_after=3, times=2)
...     collect()
>>> decisions.retries("fetch"), len(clock.waits)
(2, 2)

Names are imported on first use, because every run of pytest imports this package.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from outlast.testing.clock import FakeClock, fake_clock
    from outlast.testing.crash import Crashed, crash_at
    from outlast.testing.decisions import Decisions, record_decisions
    from outlast.testing.faults import Fault, Faults, NotReachedError, failing, inject_faults, sample_error
    from outlast.testing.queue_drain import Drained, drain, drain_async
    from outlast.testing.store_fixtures import AppMaker, fresh_database, on_store

_NAMES = {
    "outlast.testing.clock": "FakeClock fake_clock",
    "outlast.testing.crash": "Crashed crash_at",
    "outlast.testing.decisions": "Decisions record_decisions",
    "outlast.testing.faults": "Fault Faults NotReachedError failing inject_faults sample_error",
    "outlast.testing.queue_drain": "Drained drain drain_async",
    "outlast.testing.store_fixtures": "AppMaker fresh_database on_store",
}
"""The public names of each module."""
_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}

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
        raise AttributeError(f"module 'outlast.testing' has no attribute {name!r}")
    import importlib  # noqa: PLC0415  # imported late as well

    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names, imported or not."""
    return sorted({*globals(), *__all__})
