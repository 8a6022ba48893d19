"""Converts the call of a Celery task to the payload of a row and back, and reads the header of our messages.

No pickle: arguments that Celery's JSON cannot encode are refused.
"""

import hashlib
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from kombu.utils import json as kombu_json

from outlast.errors import PayloadError
from outlast.queue.masking import ENGINE_KEY
from outlast.queue.payload import BY_POSITION, encode_result, parameter_names, variable_parameters

HEADER = "outlast"
"""The message header that contains the row and the attempt of a message."""
CELERY_PART = ENGINE_KEY
"""The payload key of Celery's own part."""
_SIGNATURES = ("chain", "chord", "link", "link_error")
"""Options that may contain arguments of other tasks without their names. They are stored under a key that is always
masked, and so are the headers of the program, where a secret may have any name."""
_DROPPED_OPTIONS = {"task_id", "headers", "retries", "countdown", "eta", "redelivered", *_SIGNATURES}
_MAX_ID_LENGTH = 150


class CeleryCall(NamedTuple):
    """A call to send to the broker.

    Attributes:
        args: Positional arguments.
        kwargs: Keyword arguments.
        options: Options of `send_task`: id, queue, callbacks, the rest of a chain, limits.
        uses_celery_retry: Whether the task retries with Celery's own retry.
    """

    args: list[Any]
    kwargs: dict[str, Any]
    options: dict[str, Any]
    uses_celery_retry: bool


def unique_key(celery_id: str) -> str:
    """Return the unique key of the row of a Celery task."""
    if len(celery_id) > _MAX_ID_LENGTH:
        celery_id = hashlib.sha256(celery_id.encode(errors="replace")).hexdigest()
    return f"celery:{celery_id}"


def encode_call(task: Any, request: Any, *, limit: int, celery_retries: bool) -> str:
    """Return the payload of a call.

    Args:
        task: The Celery task.
        request: Its request.
        limit: Maximum size of the payload in bytes.
        celery_retries: Whether the task retries with Celery's own retry.

    Raises:
        PayloadError: If the arguments cannot be encoded as JSON, or are too large.
    """
    options = dict(task.signature_from_request(request).options)
    headers = {name: value for name, value in (options.get("headers") or {}).items() if name != HEADER}
    try:
        args, kwargs, part, signatures, headers = json.loads(
            kombu_json.dumps(  # type: ignore[no-untyped-call]  # kombu has few types
                [
                    list(request.args or ()),
                    request.kwargs or {},
                    {
                        name: value
                        for name, value in options.items()
                        if name not in _DROPPED_OPTIONS and value is not None
                    },
                    {name: options[name] for name in _SIGNATURES if options.get(name)},
                    headers,
                ]
            )
        )
    except Exception as error:
        raise PayloadError(
            f"task {task.name}: its arguments cannot be encoded as JSON ({type(error).__name__}), so it cannot be "
            "stored for a replay; pass plain values, or a reference to the data"
        ) from error
    arguments, layout = _bind_arguments(task.run, args, kwargs)
    if headers:
        signatures["headers"] = headers
    part = {"id": request.id, "options": part, **layout, "signatures": signatures, "itself": celery_retries}
    arguments[CELERY_PART] = {name: value for name, value in part.items() if value}
    try:
        return encode_result(arguments, limit=limit)
    except PayloadError as error:
        raise PayloadError(f"task {task.name}: {str(error).removeprefix('result: ')}") from error


def decode_call(text: str, *, now: float) -> CeleryCall:
    """Return the call of a payload.

    Args:
        text: The payload.
        now: Seconds since the epoch. An expiry in the past is left out: the expiry of the row decides.

    Raises:
        PayloadError: If it is not the payload of a Celery task.
    """
    try:
        arguments = kombu_json.loads(text)  # type: ignore[no-untyped-call]  # kombu has few types
        part = arguments.pop(CELERY_PART)
        options = {"headers": {}, **part.get("options", {}), **part.get("signatures", {})}
        rest, more = part.get("rest"), part.get("more")
        kwargs = arguments.pop(more, {}) if more else {}
        args = [arguments.pop(name) for name in part.get("positional", ()) if name in arguments]
        args += arguments.pop(rest, []) if rest else []
        options["task_id"] = part["id"]
    except Exception as error:
        raise PayloadError(f"the payload is not that of a Celery task: {type(error).__name__}") from error
    expiry = expiry_timestamp(options.get("expires"))
    if expiry is not None and expiry <= now:
        del options["expires"]
    return CeleryCall(args, {**arguments, **kwargs}, options, bool(part.get("itself")))


def _bind_arguments(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the arguments by parameter name, and how to rebuild the call from them."""
    try:
        bound = inspect.signature(function).bind(*args, **kwargs)
    except (TypeError, ValueError):  # wrong arguments: the task fails for that reason
        return {"args": list(args), "kwargs": dict(kwargs)}, {"rest": "args", "more": "kwargs"}
    rest, more = variable_parameters(bound.signature)
    positional = parameter_names(bound.signature, *BY_POSITION)[: len(args)]
    arguments = {name: list(value) if name == rest else value for name, value in bound.arguments.items()}
    return arguments, {"positional": positional, "rest": rest, "more": more}


def expiry_timestamp(expires: object) -> float | None:
    """Return the expiry of a message in seconds since the epoch; None if it has none."""
    if isinstance(expires, str):
        try:
            expires = datetime.fromisoformat(expires)
        except ValueError:
            return None
    if not isinstance(expires, datetime):
        return None
    return (expires if expires.tzinfo else expires.replace(tzinfo=UTC)).timestamp()


class MessageAttempt(NamedTuple):
    """An attempt of a task that has a row.

    Attributes:
        task_id: Id of the row.
        attempt: Number of the attempt, from 1.
        epoch: Epoch of its start; None if only the attempt number fences it.
        unbegun: Whether to settle it only if no process has started it.
    """

    task_id: int
    attempt: int
    epoch: int | None
    unbegun: bool = False


def read_header(request: Any) -> dict[str, Any] | None:
    """Return our header of a message: task, attempt, and the retry count that we set; None if it has none."""
    found = (request.headers or {}).get(HEADER)
    return found if isinstance(found, dict) else None


def message_attempt(request: Any) -> MessageAttempt | None:
    """Return the attempt for which a message was sent; None for a message of the program itself."""
    header = read_header(request)
    return MessageAttempt(int(header["task"]), int(header["attempt"]), None) if header and "task" in header else None


def uses_celery_retry(task: Any, request: Any) -> bool:
    """Return whether a task retries with Celery's own retry: by `autoretry_for`, or because it called `retry`."""
    if hasattr(task, "_orig_run"):  # Celery sets it when it wraps the function for autoretry_for
        return True
    return int(request.retries or 0) > int((read_header(request) or {}).get("retries", 0))
