"""The audit log: what somebody asks for by hand is written down before it is done."""

import getpass
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from typing import Any

from outlast.ports.store import Store
from outlast.ports.texts import storable
from outlast.queue.masking import masked_text

__all__ = ["os_user", "write_down", "written_down"]

_LONGEST = 300  # characters of one value
_LONGEST_WHY = 1000
_LONGEST_WHO = 200
_MOST = 100  # values of a list
_is_written: ContextVar[bool] = ContextVar("outlast_is_written_down", default=False)


def os_user() -> str:
    """Return who runs this process, as ``name@host``."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError, ImportError):  # a container whose user has no name
        name = f"uid{os.getuid()}" if hasattr(os, "getuid") else "somebody"
    return f"{name}@{socket.gethostname()}"


@contextmanager
def written_down() -> Iterator[None]:
    """Have nothing written within the block, for whoever called it has written it already."""
    token = _is_written.set(True)
    try:
        yield
    finally:
        _is_written.reset(token)


def write_down(
    store: Store,
    action: str,
    subject: str,
    detail: Mapping[str, Any] | None = None,
    *,
    who: str | None = None,
    why: str = "",
    most: int = _MOST,
) -> None:
    """Write down that somebody asks for something; secrets in it are masked, and it is cut.

    Args:
        store: Where the log is.
        action: What is asked for, in a word or two: ``replay``, ``pause_queue``.
        subject: To what, such as ``dead_letter:12``.
        detail: More, without anything of a payload; what is None is left out.
        who: Who asks; by default the user of this process.
        why: Why, in their words.
        most: Values of a list that are kept.
    """
    if _is_written.get():
        return
    values = {name: _plain(value, most) for name, value in (detail or {}).items() if value is not None}
    store.audit(_cut(who or os_user(), _LONGEST_WHO), action, _cut(subject, _LONGEST), values, _cut(why, _LONGEST_WHY))


def _plain(value: Any, most: int) -> Any:
    if isinstance(value, bool) or value is None or type(value) in {int, float}:
        return value
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, list | tuple):
        shown = [_plain(each, most) for each in value[:most]]
        return [*shown, f"… {len(value) - most} more"] if len(value) > most else shown
    return _cut(str(value), _LONGEST)


def _cut(text: str, longest: int) -> str:
    masked = storable(masked_text(" ".join(text.split())))
    return masked if len(masked) <= longest else f"{masked[: longest - 1]}…"
