"""The audit log: every action by a person is recorded before it runs."""

import getpass
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from typing import Any

from outlast.ports.rows import storable
from outlast.ports.store import Store
from outlast.queue.masking import masked_text

SUBJECTS = (
    "alerts", "counters", "dead_letter:ID", "dead_letters", "deploy:VERSION", "group:FINGERPRINT", "periodic:NAME",
    "queue:NAME", "refused", "replay:ID", "resource:NAME", "source:ID", "sources", "task:ID", "tasks",
)  # fmt: skip
"""What entries are about."""
_MAX_VALUE = 300  # characters of one value
_MAX_WHY = 1000
_MAX_WHO = 200
_MAX_ITEMS = 100  # values of a list
_is_disabled: ContextVar[bool] = ContextVar("outlast_audit_disabled", default=False)


def os_user() -> str:
    """Return the user of this process, as ``name@host``."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError, ImportError):  # a container whose user has no name
        name = f"uid{os.getuid()}" if hasattr(os, "getuid") else "somebody"
    return f"{name}@{socket.gethostname()}"


@contextmanager
def audit_disabled() -> Iterator[None]:
    """Write no audit entries within the block, because the caller has written one."""
    token = _is_disabled.set(True)
    try:
        yield
    finally:
        _is_disabled.reset(token)


def write_audit(
    store: Store,
    action: str,
    subject: str,
    detail: Mapping[str, Any] | None = None,
    *,
    who: str | None = None,
    why: str = "",
    most: int = _MAX_ITEMS,
) -> None:
    """Write an entry to the audit log. Secrets are masked and long texts are cut.

    Args:
        store: The store with the log.
        action: The action, such as ``replay`` or ``pause_queue``.
        subject: What it applies to, such as ``dead_letter:12``.
        detail: Further values, never from a payload; None values are left out.
        who: The person who acts; by default the user of this process.
        why: Their reason.
        most: Maximum number of values of a list.
    """
    if _is_disabled.get():
        return
    values = {name: _audit_value(value, most) for name, value in (detail or {}).items() if value is not None}
    store.audit(
        _mask_and_cut(who or os_user(), _MAX_WHO),
        action,
        _mask_and_cut(subject, _MAX_VALUE),
        values,
        _mask_and_cut(why, _MAX_WHY),
    )


def _audit_value(value: Any, most: int) -> Any:
    if isinstance(value, bool) or value is None or type(value) in {int, float}:
        return value
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, list | tuple):
        shown = [_audit_value(each, most) for each in value[:most]]
        return [*shown, f"… {len(value) - most} more"] if len(value) > most else shown
    return _mask_and_cut(str(value), _MAX_VALUE)


def _mask_and_cut(text: str, longest: int) -> str:
    masked = storable(masked_text(" ".join(text.split())))
    return masked if len(masked) <= longest else f"{masked[: longest - 1]}…"
