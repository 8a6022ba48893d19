"""What a POST sends: a form, or for programs a JSON object, within limits."""

import asyncio
import json
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from outlast.web.addresses import checked_text
from outlast.web.routing import RefusedError

if TYPE_CHECKING:
    from starlette.requests import Request

__all__ = ["MOST_BYTES", "BodyTooLargeError", "WrongKindError", "read_form"]

MOST_BYTES = 1024 * 1024
"""Bytes of a body."""
_MOST_FIELDS = 5000
_PATIENCE = 30.0  # seconds in which a body has to arrive
_FORM, _JSON = "application/x-www-form-urlencoded", "application/json"


class BodyTooLargeError(Exception):
    """More was sent than is read: 413."""


class WrongKindError(Exception):
    """What was sent is of no kind that is read: 415."""


async def read_form(request: "Request", *, most: int = MOST_BYTES, takes_json: bool = False) -> dict[str, list[str]]:
    """Return what was sent, each name with all its values.

    Args:
        request: Whose.
        most: Bytes that are read.
        takes_json: Whether it may be a JSON object as well.

    Raises:
        BodyTooLargeError: If more was sent.
        WrongKindError: If it is no form.
        RefusedError: If it cannot be read.
    """
    body = await _body(request, most)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if not body:
        return {}
    if kind == _FORM:
        return _from_form(body)
    if kind == _JSON and takes_json:
        return _from_json(body)
    raise WrongKindError


async def _body(request: "Request", most: int) -> bytes:
    told = request.headers.get("content-length", "0")
    if not told.isdigit() or len(told) > 18 or int(told) > most:  # noqa: PLR2004  # digits
        raise BodyTooLargeError
    parts, size = [], 0
    try:
        async with asyncio.timeout(_PATIENCE):
            async for part in request.stream():
                size += len(part)
                if size > most:
                    raise BodyTooLargeError
                parts.append(part)
    except TimeoutError:
        message = "what was sent did not arrive in time"
        raise RefusedError(message) from None
    return b"".join(parts)


def _from_form(body: bytes) -> dict[str, list[str]]:
    form: dict[str, list[str]] = {}
    try:
        pairs = parse_qsl(body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=_MOST_FIELDS)
    except ValueError:  # UnicodeError is one
        message = "the form is no valid UTF-8, or has too many fields"
        raise RefusedError(message) from None
    for name, value in pairs:
        form.setdefault(checked_text(name), []).append(checked_text(value))
    return form


def _from_json(body: bytes) -> dict[str, list[str]]:
    try:
        sent = json.loads(body.decode("utf-8"))
    except (ValueError, RecursionError):
        message = "the body is no JSON"
        raise RefusedError(message) from None
    if not isinstance(sent, dict):
        message = "the body is no JSON object"
        raise RefusedError(message)
    form = {}
    for name, value in sent.items():
        values = value if isinstance(value, list) else [value]
        form[checked_text(name)] = [checked_text(_text(name, each)) for each in values if each is not None]
    return form


def _text(name: str, value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    message = f"{name!r} is neither text nor number, nor a list of these"
    raise RefusedError(message)
