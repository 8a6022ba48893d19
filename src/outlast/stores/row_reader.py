"""Builds the row types of `outlast.ports` from the columns of a statement."""

import json
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from enum import StrEnum
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from outlast.decide.source_health import SourceHealth
from outlast.ports.rows import DeadLetterFilter
from outlast.ports.source_rows import Source
from outlast.ports.triage import Replay
from outlast.stores.filters import read_filter

R = TypeVar("R")
Convert = Callable[[Any], Any]
_FILTERS = Replay._fields.index("filters")
_HEALTH = Source._fields.index("health")
_HEALTH_COLUMNS = slice(_HEALTH, _HEALTH + len(SourceHealth._fields))


class RowReader:
    """Builds row types from columns in the order of their fields.

    The annotation of a field says how its column is converted: a time, an enum, a flag, JSON text. NULL becomes None.
    The health of a source has columns of its own. The filters of a replay contain its maximum failures.

    Args:
        to_datetime: Converts a stored time.
    """

    def __init__(self, to_datetime: Convert) -> None:
        self.to_datetime = to_datetime
        self._by_type: dict[Any, Convert] = {
            datetime: to_datetime,
            bool: bool,
            dict: json.loads,
            tuple: _read_tuple,
            DeadLetterFilter: read_filter,
        }
        self._by_row_type: dict[type, list[tuple[int, Convert]]] = {}

    def __call__(self, row_type: type[R], row: Sequence[Any]) -> R:
        """Return a row type from its columns."""
        if row_type not in self._by_row_type:
            self._by_row_type[row_type] = [*self._conversions(row_type)]
        values = list(row)
        for place, convert in self._by_row_type[row_type]:
            if values[place] is not None:
                values[place] = convert(values[place])
        if row_type is Replay:
            values.append(json.loads(row[_FILTERS]).get("max_failures"))
        elif row_type is Source:
            values[_HEALTH_COLUMNS] = [SourceHealth(*values[_HEALTH_COLUMNS])]
        build: Callable[..., R] = row_type
        return build(*values)

    def _conversions(self, row_type: type) -> Iterable[tuple[int, Convert]]:
        """Yield the columns that are converted, each with its function."""
        columns = [*get_type_hints(row_type).values()]
        if row_type is Source:
            columns[_HEALTH : _HEALTH + 1] = get_type_hints(SourceHealth).values()
        for place, annotation in enumerate(columns):
            kind = _plain_type(annotation)
            if kind in self._by_type:
                yield place, self._by_type[kind]
            elif issubclass(kind, StrEnum):
                yield place, kind


def _plain_type(annotation: Any) -> Any:
    """Return the class in an annotation: ``dict`` for ``dict[str, Any] | None``."""
    kind = get_args(annotation)[0] if isinstance(annotation, UnionType) else annotation
    return get_origin(kind) or kind


def _read_tuple(stored: Any) -> tuple[Any, ...]:
    """Return a stored array: JSON text in SQLite, a list in PostgreSQL."""
    return tuple(json.loads(stored) if isinstance(stored, str) else stored)
