"""Times as this store keeps them: UTC milliseconds since the epoch."""

from datetime import UTC, datetime

from outlast import clock

_LAST = 253_402_300_799_000  # the end of the year 9999

__all__ = ["milliseconds", "moment", "now_ms"]


def now_ms() -> int:
    """Return the time; all processes that share the file share the machine's clock."""
    return round(clock.now() * 1000)


def milliseconds(seconds: float) -> int:
    """Return seconds in the store's unit, rounded up: nothing is ever early."""
    return -int(-seconds * 1000 // 1)


def moment(stored: int | None) -> datetime | None:
    """Return a stored time as a datetime; one that no datetime can hold, as the nearest that can."""
    return None if stored is None else datetime.fromtimestamp(min(max(stored, 0), _LAST) / 1000, UTC)
