"""The arguments of a dead letter as a form: a field for every plain value, and from what was typed a JSON Patch.

A value that is masked has an empty field: what is typed there replaces it, and what it is stays unknown.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

__all__ = ["Field", "FieldError", "Fields", "fields_of", "operations"]

MOST_FIELDS = 60
"""Fields that a form has; what is not among them is changed by a patch."""
_LONGEST = 2_000  # characters of a text that has a field
_LONGEST_NUMBER = 60
_WORDS = {"true": True, "false": False}


class Field(NamedTuple):
    """A plain value that can be edited.

    Attributes:
        name: In the form; it tells nothing of the arguments.
        path: Where it stands, as a patch names it.
        label: The same, as it is shown.
        kind: ``text``, ``number``, ``boolean`` or ``null``.
        text: What the field shows; empty for what is masked.
        masked: Whether it is.
        lines: How many it has room for.
    """

    name: str
    path: str
    label: str
    kind: str
    text: str
    masked: bool
    lines: int


class Fields(NamedTuple):
    """All fields, and whether some values have none, for they are too many or too long."""

    rows: tuple[Field, ...]
    others: bool


class FieldError(ValueError):
    """What was typed is no value of the kind that stands there; the message names the field."""


def fields_of(real: Any, shown: Any) -> Fields:
    """Return the fields of arguments.

    Args:
        real: The arguments as they are.
        shown: The same, masked.
    """
    rows: list[Field] = []
    others = False
    for path, label, value, seen in _leaves(real, shown, "", ""):
        if len(rows) == MOST_FIELDS or isinstance(value, list | dict) or (value == seen and _is_unfit(value)):
            others = True
            continue
        masked = type(value) is not type(seen) or value != seen
        text = "" if masked else _text(value)
        lines = 1 if masked or not isinstance(value, str) else min(max(text.count("\n") + 1, len(text) // 80 + 1), 8)
        rows.append(Field(f"field-{len(rows) + 1}", path, label, _kind(value), text, masked, lines))
    return Fields(tuple(rows), others)


def _leaves(real: Any, shown: Any, path: str, label: str) -> Iterator[tuple[str, str, Any, Any]]:
    """Yield plain values with where they stand; for what can have no field, an empty object or a list."""
    if isinstance(real, dict) and isinstance(shown, dict) and len(real) == len(shown) and real:
        for (key, value), (name, seen) in zip(real.items(), shown.items(), strict=True):
            pointer = f"{path}/{key.replace('~', '~0').replace('/', '~1')}"
            if key != name:
                yield pointer, "", {}, {}  # no patch may name what is masked, so it has no field
            else:
                yield from _leaves(value, seen, pointer, f"{label}.{name}" if label else name)
    elif isinstance(real, list) and isinstance(shown, list) and len(real) == len(shown) and real:
        for place, (value, seen) in enumerate(zip(real, shown, strict=True)):
            yield from _leaves(value, seen, f"{path}/{place}", f"{label}[{place}]")
    elif path:
        yield path, label, real, shown


def _is_unfit(value: Any) -> bool:
    """Tell whether a field would not give back what it was given: browsers change the ends of lines, for one."""
    return isinstance(value, str) and (len(value) > _LONGEST or not value.replace("\n", "").isprintable())


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    return "null" if value is None else "text"


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value)


def operations(fields: Fields, typed: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the patch that makes of the arguments what was typed; empty where nothing was changed.

    Args:
        fields: As the form showed them.
        typed: By the names of the fields. What is not there is left as it is.

    Raises:
        FieldError: If something typed is no value of its kind.
    """
    patch: list[dict[str, Any]] = []
    for field in fields.rows:
        text = typed.get(field.name)
        if text is None:
            continue
        text = text.replace("\r\n", "\n")  # as browsers send every line
        if text == field.text or (field.masked and not text):
            continue
        patch.append({"op": "replace", "path": field.path, "value": _value(field, text)})
    return patch


def _value(field: Field, text: str) -> Any:
    match field.kind:
        case "boolean":
            if text.strip().lower() in _WORDS:
                return _WORDS[text.strip().lower()]
            message = f"{field.label}: {text[:50]!r} is neither true nor false"
            raise FieldError(message)
        case "number":
            return _number(field, text.strip())
        case _:
            return text


def _number(field: Field, text: str) -> int | float:
    try:
        value = json.loads(text, parse_constant=_refuse) if len(text) <= _LONGEST_NUMBER else None
    except ValueError:
        value = None
    if isinstance(value, bool) or not isinstance(value, int | float):
        message = f"{field.label}: {text[:50]!r} is no number; a patch can make it something else"
        raise FieldError(message)
    return value


def _refuse(text: str) -> None:
    raise ValueError(text)
