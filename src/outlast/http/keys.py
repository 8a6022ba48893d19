"""Keys by which a server can tell that it gets the same request again."""

import hashlib
import threading
import uuid
from collections import OrderedDict

from outlast.run.current import CURRENT

__all__ = ["KEY_HEADER", "idempotency_key", "key_for"]

KEY_HEADER = "Idempotency-Key"
_NAMESPACE = uuid.UUID("6f5c2c9e-6a41-5d0f-9c8e-2f1f0f5a7b31")
_MOST = 10_000  # kinds of requests that are counted at once
_counts: "OrderedDict[tuple[object, object, str], int]" = OrderedDict()
_counting = threading.Lock()


def idempotency_key(*parts: object) -> str:
    """Return a key by which a server can tell that it gets the same request again.

    Within a task it is the same for every attempt and every replay of the task, one for each list of parts. Outside of
    one it is made of the parts; without parts it is another each time.

    Args:
        parts: What tells this request from others of the same task, such as ``"charge", order_id``.
    """
    task = CURRENT.get()
    if task is None and not parts:
        return str(uuid.uuid4())
    owner = "" if task is None else f"task {task.id} {getattr(task, 'task_type', '')}"
    return str(uuid.uuid5(_NAMESPACE, _digest(*parts, owner)))


def key_for(method: str, url: object, body: bytes | str | None) -> str:
    """Return the key of a request that brings none.

    Within a task it is made of the task and the request, and of how many like it this attempt has sent before: an
    attempt that does the same again gets the same keys, and two equal requests of one attempt are two.

    Args:
        method: Of the request.
        url: Of the request.
        body: What is sent; None where that is not known before: then the key is a new one.
    """
    task = CURRENT.get()
    if task is None or body is None:
        return str(uuid.uuid4())
    request = _digest(method, url, body)
    kind = (task.id, getattr(task, "epoch", None), request)
    with _counting:
        before = _counts.pop(kind, 0)
        _counts[kind] = before + 1
        while len(_counts) > _MOST:
            _counts.popitem(last=False)
    return idempotency_key(request, before)


def _digest(*parts: object) -> str:
    told = "\x1f".join(part.hex() if isinstance(part, bytes) else str(part) for part in parts)
    return hashlib.sha256(told.encode("utf-8", "replace")).hexdigest()
