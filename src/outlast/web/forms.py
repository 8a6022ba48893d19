"""Read the body of a POST within limits: a form, or a JSON object."""

import asyncio
import json

from starlette.exceptions import HTTPException
from starlette.requests import Request

from outlast.operations import InvalidValueError
from outlast.web.routing import Form, check_text, parse_pairs

MAX_FORM_BYTES = 1024 * 1024
"""Most bytes of a body."""
_MAX_FORM_FIELDS = 5000
_READ_TIMEOUT = 30.0  # seconds for the whole body
_FORM_TYPE, _JSON_TYPE = "application/x-www-form-urlencoded", "application/json"


async def read_form(request: Request, *, most: int = MAX_FORM_BYTES, takes_json: bool = False) -> Form:
    """Return the fields of a body, each with all its values.

    Args:
        request: The request.
        most: Most bytes of the body.
        takes_json: Whether a JSON object is accepted too.

    Raises:
        HTTPException: 413 if the body is too large, 415 if it is not a form.
        InvalidValueError: If it cannot be parsed.
    """
    body = await _read_body(request, most)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if not body:
        return {}
    if kind == _FORM_TYPE:
        return _parse_form(body)
    if kind == _JSON_TYPE and takes_json:
        return _parse_json(body)
    raise HTTPException(415)


async def _read_body(request: Request, most: int) -> bytes:
    length = request.headers.get("content-length", "0")
    if not length.isdigit() or len(length) > 18 or int(length) > most:  # noqa: PLR2004  # digits
        raise HTTPException(413, headers={"Connection": "close"})
    parts, size = [], 0
    try:
        async with asyncio.timeout(_READ_TIMEOUT):
            async for part in request.stream():
                size += len(part)
                if size > most:
                    raise HTTPException(413, headers={"Connection": "close"})
                parts.append(part)
    except TimeoutError:
        raise InvalidValueError("the request body did not arrive in time") from None
    return b"".join(parts)


def _parse_form(body: bytes) -> Form:
    form: dict[str, list[str]] = {}
    for name, value in parse_pairs(body, "form", _MAX_FORM_FIELDS, keep_blank=True):
        form.setdefault(name, []).append(value)
    return form


def _parse_json(body: bytes) -> Form:
    try:
        sent = json.loads(body.decode("utf-8"))
    except (ValueError, RecursionError):
        raise InvalidValueError("the body is not valid JSON") from None
    if not isinstance(sent, dict):
        raise InvalidValueError("the body is not a JSON object")
    form = {}
    for name, value in sent.items():
        values = value if isinstance(value, list) else [value]
        form[check_text(name)] = [check_text(_field_text(name, each)) for each in values if each is not None]
    return form


def _field_text(name: str, value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(int(value) if isinstance(value, float) and value.is_integer() else value)
    raise InvalidValueError(f"{name!r} must be a text, a number, or a list of these")
