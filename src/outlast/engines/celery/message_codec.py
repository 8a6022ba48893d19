"""A call of a Celery task as the row of a task of ours has it, and back: its arguments by name, and Celery's own part.

No pickle: what JSON, with the few types that Celery's JSON knows, cannot carry is refused.
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
from outlast.queue.payload import encode_result

HEADER = "outlast"
"""The header of a message that says for which attempt of which task it was sent."""
CELERY_PART = ENGINE_KEY
"""The name in a payload under which Celery's own part stands."""
_SIGNATURES = ("chain", "chord", "link", "link_error")
"""What may hold arguments of other tasks, nameless: it stands under a name that has it masked wherever it is shown.

So do the program's own headers, in which a secret may have any name."""
_DROPPED_OPTIONS = {"task_id", "headers", "retries", "countdown", "eta", "redelivered", *_SIGNATURES}
_MAX_ID_LENGTH = 150
_Parameter = inspect.Parameter


class CeleryCall(NamedTuple):
    """What is sent to the broker.

    Attributes:
        args: Positional arguments.
        kwargs: Keyword arguments.
        options: For `send_task`: id, queue, callbacks, the rest of a chain, limits.
        itself: Whether the task retries by Celery's own means.
    """

    args: list[Any]
    kwargs: dict[str, Any]
    options: dict[str, Any]
    itself: bool


def unique_key(celery_id: str) -> str:
    """Return the unique key of a task of Celery's."""
    if len(celery_id) > _MAX_ID_LENGTH:
        celery_id = hashlib.sha256(celery_id.encode(errors="replace")).hexdigest()
    return f"celery:{celery_id}"


def encode_call(task: Any, request: Any, *, limit: int, itself: bool) -> str:
    """Return the payload of a call.

    Args:
        task: Of Celery's.
        request: The call, as the task sees it.
        limit: Bytes that the payload may have.
        itself: Whether the task retries by Celery's own means.

    Raises:
        PayloadError: If it has no form in JSON, or is too large.
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
        message = (
            f"task {task.name}: its arguments have no form in JSON ({type(error).__name__}), so it cannot be kept for "
            "a replay; pass plain values, or a reference to where the data is"
        )
        raise PayloadError(message) from error
    given, how = _bind_arguments(task.run, args, kwargs)
    if headers:
        signatures["headers"] = headers
    part = {"id": request.id, "options": part, **how, "signatures": signatures, "itself": itself}
    given[CELERY_PART] = {name: value for name, value in part.items() if value}
    try:
        return encode_result(given, limit=limit)
    except PayloadError as error:
        message = f"task {task.name}: {str(error).removeprefix('result: ')}"
        raise PayloadError(message) from error


def decode_call(text: str, *, now: float) -> CeleryCall:
    """Return the call of a payload.

    Args:
        text: The payload.
        now: Seconds since the epoch; an expiry that is over is not sent with it: whether the task is still worth it,
            its row says.

    Raises:
        PayloadError: If it is none of a task of Celery's.
    """
    try:
        given = kombu_json.loads(text)  # type: ignore[no-untyped-call]  # the same
        part = given.pop(CELERY_PART)
        options = {"headers": {}, **part.get("options", {}), **part.get("signatures", {})}
        rest, more = part.get("rest"), part.get("more")
        kwargs = given.pop(more, {}) if more else {}
        args = [given.pop(name) for name in part.get("positional", ()) if name in given]
        args += given.pop(rest, []) if rest else []
        options["task_id"] = part["id"]
    except Exception as error:
        message = f"no payload of a task of Celery's: {type(error).__name__}"
        raise PayloadError(message) from error
    if _is_expired(options.get("expires"), now):
        del options["expires"]
    return CeleryCall(args, {**given, **kwargs}, options, bool(part.get("itself")))


def _bind_arguments(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return arguments by the names of the parameters, and how the call is made of them again."""
    try:
        bound = inspect.signature(function).bind(*args, **kwargs)
    except (TypeError, ValueError):  # it cannot be called so; that is what its failure says
        return {"args": list(args), "kwargs": dict(kwargs)}, {"rest": "args", "more": "kwargs"}
    parameters = list(bound.signature.parameters.values())
    rest = next((each.name for each in parameters if each.kind is _Parameter.VAR_POSITIONAL), None)
    more = next((each.name for each in parameters if each.kind is _Parameter.VAR_KEYWORD), None)
    by_position = {_Parameter.POSITIONAL_ONLY, _Parameter.POSITIONAL_OR_KEYWORD}
    positional = [each.name for each in parameters if each.kind in by_position][: len(args)]
    given = {name: list(value) if name == rest else value for name, value in bound.arguments.items()}
    return given, {"positional": positional, "rest": rest, "more": more}


def _is_expired(expires: object, now: float) -> bool:
    if isinstance(expires, str):
        try:
            expires = datetime.fromisoformat(expires)
        except ValueError:
            return False
    if not isinstance(expires, datetime):
        return False
    return (expires if expires.tzinfo else expires.replace(tzinfo=UTC)).timestamp() <= now


# What a message says of itself, and of who retries it.


class MessageAttempt(NamedTuple):
    """An attempt of a task that has a row.

    Attributes:
        task_id: The row.
        attempt: Number of the attempt, from 1.
        epoch: Of its start; None where only the number fences.
        unbegun: Whether it is not for us to say anything where somebody runs it already.
    """

    task_id: int
    attempt: int
    epoch: int | None
    unbegun: bool = False


def read_header(request: Any) -> dict[str, Any] | None:
    """Return what a message that we sent says of itself: task, attempt, and Celery's count of retries as we set it."""
    found = (request.headers or {}).get(HEADER)
    return found if isinstance(found, dict) else None


def message_attempt(request: Any) -> MessageAttempt | None:
    """Return the attempt for which a message was sent; None for a message of the program's own."""
    header = read_header(request)
    return MessageAttempt(int(header["task"]), int(header["attempt"]), None) if header and "task" in header else None


def uses_celery_retry(task: Any, request: Any) -> bool:
    """Tell whether a task retries by Celery's own means: by `autoretry_for`, or because it called `retry`."""
    if hasattr(task, "_orig_run"):  # what Celery leaves behind where it has wrapped the function
        return True
    return int(request.retries or 0) > int((read_header(request) or {}).get("retries", 0))
