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
from outlast.queue.masking import ENGINES_PART
from outlast.queue.payload import encode_result

__all__ = ["HEADER", "PART", "Call", "key_of", "packed", "unpacked"]

HEADER = "outlast"
"""The header of a message that says for which attempt of which task it was sent."""
PART = ENGINES_PART
"""The name in a payload under which Celery's own part stands."""
_SIGNATURES = ("chain", "chord", "link", "link_error")
"""What may hold arguments of other tasks, nameless: it stands under a name that has it masked wherever it is shown.

So do the program's own headers, in which a secret may have any name."""
_LEFT_OUT = {"task_id", "headers", "retries", "countdown", "eta", "redelivered", *_SIGNATURES}
_LONGEST_ID = 150
_Kind = inspect.Parameter


class Call(NamedTuple):
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


def key_of(celery_id: str) -> str:
    """Return the unique key of a task of Celery's."""
    if len(celery_id) > _LONGEST_ID:
        celery_id = hashlib.sha256(celery_id.encode(errors="replace")).hexdigest()
    return f"celery:{celery_id}"


def packed(task: Any, request: Any, *, limit: int, itself: bool) -> str:
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
                    {name: value for name, value in options.items() if name not in _LEFT_OUT and value is not None},
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
    given, how = _named(task.run, args, kwargs)
    if headers:
        signatures["headers"] = headers
    part = {"id": request.id, "options": part, **how, "signatures": signatures, "itself": itself}
    given[PART] = {name: value for name, value in part.items() if value}
    try:
        return encode_result(given, limit=limit)
    except PayloadError as error:
        message = f"task {task.name}: {str(error).removeprefix('result: ')}"
        raise PayloadError(message) from error


def unpacked(text: str, *, now: float) -> Call:
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
        part = given.pop(PART)
        options = {"headers": {}, **part.get("options", {}), **part.get("signatures", {})}
        rest, more = part.get("rest"), part.get("more")
        kwargs = given.pop(more, {}) if more else {}
        args = [given.pop(name) for name in part.get("positional", ()) if name in given]
        args += given.pop(rest, []) if rest else []
        options["task_id"] = part["id"]
    except Exception as error:
        message = f"no payload of a task of Celery's: {type(error).__name__}"
        raise PayloadError(message) from error
    if _is_over(options.get("expires"), now):
        del options["expires"]
    return Call(args, {**given, **kwargs}, options, bool(part.get("itself")))


def _named(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return arguments by the names of the parameters, and how the call is made of them again."""
    try:
        bound = inspect.signature(function).bind(*args, **kwargs)
    except (TypeError, ValueError):  # it cannot be called so; that is what its failure says
        return {"args": list(args), "kwargs": dict(kwargs)}, {"rest": "args", "more": "kwargs"}
    parameters = list(bound.signature.parameters.values())
    rest = next((each.name for each in parameters if each.kind is _Kind.VAR_POSITIONAL), None)
    more = next((each.name for each in parameters if each.kind is _Kind.VAR_KEYWORD), None)
    by_position = {_Kind.POSITIONAL_ONLY, _Kind.POSITIONAL_OR_KEYWORD}
    positional = [each.name for each in parameters if each.kind in by_position][: len(args)]
    given = {name: list(value) if name == rest else value for name, value in bound.arguments.items()}
    return given, {"positional": positional, "rest": rest, "more": more}


def _is_over(expires: object, now: float) -> bool:
    if isinstance(expires, str):
        try:
            expires = datetime.fromisoformat(expires)
        except ValueError:
            return False
    if not isinstance(expires, datetime):
        return False
    return (expires if expires.tzinfo else expires.replace(tzinfo=UTC)).timestamp() <= now
