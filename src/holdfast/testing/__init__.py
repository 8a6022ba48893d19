"""For your own tests: prove that your program survives failures. Works in any test framework; pytest has fixtures.

>>> with fake_clock() as clock, inject_faults() as faults, record_decisions() as decisions:
...     faults.fail("shop.client.fetch", "rate_limit", retry_after=3, times=2)
...     collect()
>>> decisions.retries("fetch"), len(clock.waits)
(2, 2)

Names are loaded when they are first used, since every run of pytest imports this package.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.testing.clocks import FakeClock as FakeClock
    from holdfast.testing.clocks import fake_clock as fake_clock
    from holdfast.testing.crashing import Crashed as Crashed
    from holdfast.testing.crashing import crash_at as crash_at
    from holdfast.testing.decisions import Decisions as Decisions
    from holdfast.testing.decisions import record_decisions as record_decisions
    from holdfast.testing.draining import Drained as Drained
    from holdfast.testing.draining import drain as drain
    from holdfast.testing.draining import drain_async as drain_async
    from holdfast.testing.faults import Fault as Fault
    from holdfast.testing.faults import Faults as Faults
    from holdfast.testing.faults import inject_faults as inject_faults
    from holdfast.testing.places import AppMaker as AppMaker
    from holdfast.testing.places import fresh_database as fresh_database
    from holdfast.testing.places import on_store as on_store
    from holdfast.testing.reached import NotReachedError as NotReachedError
    from holdfast.testing.samples import sample_error as sample_error
    from holdfast.testing.scripted import failing as failing

_HOMES = {
    "AppMaker": "holdfast.testing.places",
    "Crashed": "holdfast.testing.crashing",
    "Decisions": "holdfast.testing.decisions",
    "Drained": "holdfast.testing.draining",
    "FakeClock": "holdfast.testing.clocks",
    "Fault": "holdfast.testing.faults",
    "Faults": "holdfast.testing.faults",
    "NotReachedError": "holdfast.testing.reached",
    "crash_at": "holdfast.testing.crashing",
    "drain": "holdfast.testing.draining",
    "drain_async": "holdfast.testing.draining",
    "failing": "holdfast.testing.scripted",
    "fake_clock": "holdfast.testing.clocks",
    "fresh_database": "holdfast.testing.places",
    "inject_faults": "holdfast.testing.faults",
    "on_store": "holdfast.testing.places",
    "record_decisions": "holdfast.testing.decisions",
    "sample_error": "holdfast.testing.samples",
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
    """Load a public name when it is first asked for."""
    home = _HOMES.get(name)
    if home is None:
        message = f"module 'holdfast.testing' has no attribute {name!r}"
        raise AttributeError(message)
    import importlib  # noqa: PLC0415  # part of what is put off

    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names, loaded or not."""
    return sorted({*globals(), *__all__})
