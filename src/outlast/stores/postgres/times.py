"""Times as this store returns them: a session's time zone is its own affair, ours is UTC."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

__all__ = ["in_utc"]


def in_utc(row: Sequence[Any]) -> list[Any]:
    """Return a row with its times in UTC."""
    return [value.astimezone(UTC) if isinstance(value, datetime) else value for value in row]
