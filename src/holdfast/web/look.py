"""What all templates can say: filters of ours, registered once by the site."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from holdfast.report.words import ago, category_look, count, counted, span

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["FILTERS"]


def _iso(at: datetime) -> str:
    """Return a time for the attribute of a ``<time>``."""
    return at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _stamp(at: datetime) -> str:
    """Return a time in full, for people."""
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


FILTERS: "dict[str, Callable[..., Any]]" = {
    "ago": ago,
    "category_look": category_look,
    "count": count,
    "counted": counted,
    "iso": _iso,
    "span": span,
    "stamp": _stamp,
}
"""By name, as templates write them: ``{{ row.at | ago(now) }}``."""
