"""Sources as this store keeps them: health in columns of its own, times as numbers, failures as JSON text."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from outlast.decide.health import Health, SourceState
from outlast.ports.source_rows import Source
from outlast.stores.sqlite.times import moment

__all__ = ["source_of", "stored", "values_of"]

_NAMES = tuple(name for field in Source._fields for name in (Health._fields if field == "health" else (field,)))
"""The columns of a source, in the order of the statements that read it."""
_TIMES = tuple(
    name for name in _NAMES if name.endswith("_at") or name in {"failing_since", "not_before", "leased_until"}
)
_FAILURES = ("last_failure", "pending")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNIT = timedelta(milliseconds=1)
_dumps = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


def stored(time: datetime | None) -> int | None:
    """Return a time in the store's unit, rounded up: nothing is ever early."""
    return None if time is None else -((_EPOCH - time) // _UNIT)


def source_of(row: Sequence[Any]) -> Source:
    """Return a source from its columns."""
    values = dict(zip(_NAMES, row, strict=True))
    for name in _TIMES:
        values[name] = moment(values[name])
    for name in _FAILURES:
        if values[name] is not None:
            values[name] = json.loads(values[name])
    values["state"] = SourceState(values["state"])
    health = Health(**{name: values.pop(name) for name in Health._fields})
    return Source(health=health, **values)


def values_of(source: Source) -> dict[str, Any]:
    """Return a source's columns by their names."""
    values = source._asdict() | source.health._asdict()
    del values["health"]
    for name in _TIMES:
        values[name] = stored(values[name])
    for name in _FAILURES:
        if values[name] is not None:
            values[name] = _dumps(values[name])
    return values
