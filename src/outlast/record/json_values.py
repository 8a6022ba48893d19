"""Converts any value to valid JSON, for output and logs."""

import json
import math
from typing import Any

from outlast.classify.safe_access import contained

_MAX_DEPTH = 150
_MAX_BITS = 10_000  # of an integer; Python does not print longer ones in decimal


def json_text(value: object, *, ensure_ascii: bool = False, indent: int | None = None) -> str:
    """Return strictly valid JSON: no NaN, no circular references, no unknown objects.

    Args:
        value: The value.
        ensure_ascii: Whether non-ASCII characters are escaped.
        indent: Spaces per level; None for one line.
    """
    return json.dumps(to_json_value(value), ensure_ascii=ensure_ascii, indent=indent, allow_nan=False)


def to_json_value(value: object) -> Any:
    """Return a value that consists of JSON types only; other objects become text, circular references "…"."""
    return _convert_safely(value, ())


def _convert_safely(value: object, within: tuple[int, ...]) -> Any:
    return contained(f"<a {type(value).__name__} that cannot be converted to text>", _convert, value, within)


def _convert(value: Any, within: tuple[int, ...]) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        number = int(value)
        return number if number.bit_length() <= _MAX_BITS else hex(number)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(float(value))
    if not isinstance(value, dict | list | tuple | set | frozenset):
        return str(value)
    if id(value) in within or len(within) >= _MAX_DEPTH:
        return "…"
    inside = (*within, id(value))
    if isinstance(value, dict):
        return {_convert_key(key): _convert_safely(each, inside) for key, each in value.items()}
    return [_convert_safely(each, inside) for each in value]


def _convert_key(key: object) -> str:
    if isinstance(key, str):
        return str.__str__(key)
    return contained(f"<a {type(key).__name__} that cannot be converted to text>", str, key)
