"""What all templates can say: filters of ours, registered once by the site."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from unicodedata import category

from markupsafe import Markup, escape

from outlast.report.words import ago, category_look, count, counted, span

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["FILTERS", "visible"]

_UNREFERABLE = frozenset(map(chr, range(0x80, 0xA0)))  # browsers read references to them as other characters
_KEPT = {"\n", "\t", "\u200c", "\u200d"}  # lines, and what joins letters of some scripts and parts of some pictures


def _iso(at: datetime) -> str:
    """Return a time for the attribute of a ``<time>``."""
    return at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _stamp(at: datetime) -> str:
    """Return a time in full, for people."""
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def visible(value: Any) -> Any:
    """Return what a template writes, with every character that would not be seen spelled out.

    Some of them turn the text behind them around, or hide it; a name may have them, and a page shows that it does.
    """
    if not isinstance(value, str) or isinstance(value, Markup) or value.isprintable():
        return value
    return "".join(char if _is_seen(char) else _spelled(char) for char in value.replace("\r\n", "\n"))


def _is_seen(char: str) -> bool:
    return char.isprintable() or char in _KEPT or category(char) == "Zs"


def _spelled(char: str) -> str:
    number = ord(char)
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"  # noqa: PLR2004  # as Python writes them


def _exact(value: Any) -> Markup:
    """Return a value that a form sends back as it is; characters that would not be seen are references."""
    text = str(escape(value))
    return Markup("".join(char if _is_seen(char) or char in _UNREFERABLE else f"&#{ord(char)};" for char in text))  # noqa: S704  # escaped above


FILTERS: "dict[str, Callable[..., Any]]" = {
    "ago": ago,
    "category_look": category_look,
    "count": count,
    "counted": counted,
    "exact": _exact,
    "iso": _iso,
    "span": span,
    "stamp": _stamp,
}
"""By name, as templates write them: ``{{ row.at | ago(now) }}``."""
