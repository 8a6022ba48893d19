"""Masks secrets in stored arguments and texts before they are shown."""

import copy
import json
import math
from collections.abc import Callable
from typing import Any, TypeVar

from outlast.classify import default_classifier
from outlast.errors import ConfigError
from outlast.ports.rows import TaskSearch
from outlast.redact import MASK, safe_text
from outlast.secret_names import is_secret_name

ENGINE_KEY = "__celery__"
"""The name of the options for Celery in a payload; they are not shown to people."""

Row = TypeVar("Row")
_FREE_TEXT = frozenset([
    "acknowledged_by", "detail", "entity", "env", "error", "error_message", "etag", "failure", "job", "key",
    "last_error", "last_failure", "last_modified", "memory", "name", "note", "options", "pending", "reason", "resource",
    "selector", "snoozed_by", "source_id", "stopped_by", "subject", "text", "title", "traceback", "unique_key", "url",
    "who",
])  # fmt: skip
"""Fields of rows that may contain secrets."""
_DEEPEST = 100  # shown levels of nested lists; stored JSON may have any depth
_MAX_NAME = 65_536  # characters of a text; stored texts are shorter, so that none is cut a second time
_NAME_KEYS, _VALUE_KEYS = frozenset(["name", "key", "header"]), frozenset(["value", "values"])


def masked_text(text: str) -> str:
    """Return a text with its secrets masked, by the patterns of the process; a text without secrets is not changed.

    Args:
        text: The stored text: a unique key, a resource, an error message, a traceback.
    """
    redact = copy.copy(default_classifier().redact)
    redact.limit = max(redact.limit, _MAX_NAME)
    masked = redact(text)
    return text if masked == safe_text(text, redact.limit) else masked


def masked_texts(value: Any) -> Any:
    """Return a value without the secrets in its texts and under secret names: a text, a dict or a list, or None."""
    if type(value) is str:  # members of an enumeration hold no secrets
        return masked_text(value)
    if isinstance(value, dict):
        return {key: MASK if is_secret_name(str(key), each) else masked_texts(each) for key, each in value.items()}
    return [masked_texts(each) for each in value] if isinstance(value, list) else value


def masked_row(row: Row, mask: Callable[[Any], Any] = masked_texts) -> Row:
    """Return a row with its free texts masked; not the arguments of a task."""
    fields: Any = row
    texts = {name: value for name, value in fields._asdict().items() if name in _FREE_TEXT}
    masked: Row = fields._replace(**{name: mask(each) for name, each in texts.items() if isinstance(each, str | dict)})
    return masked


def check_shown_name(label: str, name: str) -> str:
    """Return the name of a task or queue, which pages, logs and metrics show.

    Raises:
        ConfigError: If it contains a secret.
    """
    shown = masked_text(name)
    if shown != name:
        raise ConfigError(f"{label} is {shown!r:.100}, which contains a secret; choose a name that may be shown")
    return name


def masked_parameters(text: str) -> str:
    """Return the JSON text of a payload's arguments with its secrets masked.

    The whole value of a secret name is masked, and so is the value after such a name in a pair or in a list of names
    and values. The redactor of the process masks secrets in other texts and cuts long ones. A text that is not JSON is
    redacted as a whole.

    Args:
        text: The stored text.
    """
    try:
        return json.dumps(_without_engine_key(_parse(text)), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (ValueError, TypeError, RecursionError):
        return default_classifier().redact(text)


def task_search(text: str) -> TaskSearch:
    """Return a search for tasks by unique key or part of the arguments; masked secrets are not found by their value."""
    wanted, is_plain = text.casefold(), masked_text(text) == text

    def is_shown(unique_key: str | None, parameters: str) -> bool:
        return (is_plain and unique_key == text) or wanted in masked_parameters(parameters).casefold()

    return TaskSearch(text, is_shown)


def masked_value(text: str) -> Any:
    """Return a payload with its secrets masked, as JSON values; a text that is not JSON as text.

    Numbers that JSON cannot represent become text, and values that are nested too deeply are left out.

    Args:
        text: The stored text.
    """
    try:
        return _parse(text)
    except (ValueError, TypeError, RecursionError):
        return default_classifier().redact(text)


def masked_arguments(text: str) -> Any:
    """Return the masked arguments of a payload, without the options for Celery.

    Args:
        text: The stored text.
    """
    return _without_engine_key(masked_value(text))


def _without_engine_key(value: Any) -> Any:
    if not isinstance(value, dict) or not isinstance(value.get(ENGINE_KEY), dict):
        return value
    return {name: each for name, each in value.items() if name != ENGINE_KEY}


def _parse(text: str) -> Any:
    return _mask(json.loads(text, parse_constant=str, parse_float=_parse_number), default_classifier().redact, _DEEPEST)


def _parse_number(text: str) -> float | str:
    number = float(text)
    return number if math.isfinite(number) else text


def _mask(value: Any, redact: Callable[[str], str], depth: int) -> Any:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, list | dict) and depth == 0:
        return "…"
    if isinstance(value, list):
        return [
            MASK if number and _is_name_before_value(value, number) else _mask(each, redact, depth - 1)
            for number, each in enumerate(value)
        ]
    if isinstance(value, dict):
        called = [each for key, each in value.items() if key.lower() in _NAME_KEYS and isinstance(each, str)]
        return {
            redact(key): MASK
            if is_secret_name(key, each)
            or (key.lower() in _VALUE_KEYS and any(is_secret_name(name, each) for name in called))
            else _mask(each, redact, depth - 1)
            for key, each in value.items()
        }
    return value


def _is_name_before_value(values: list[Any], number: int) -> bool:
    """Return whether a value follows a secret name: in pairs, such as headers, or after an option of a command."""
    before, size = values[number - 1], len(values)
    if not isinstance(before, str):
        return False
    is_pair = size == 2 or (size % 2 == 0 and number % 2 == 1 and " " not in before)  # noqa: PLR2004  # name and value
    is_option = before.startswith("-") and "=" not in before
    return (is_pair or is_option) and is_secret_name(before, values[number])
