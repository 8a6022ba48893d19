"""Reads targets lazily, with their keys, and leaves out those that are already done."""

import threading
import time
from collections import deque
from collections.abc import AsyncIterable, Callable, Iterable, Iterator, Sequence, Sized
from itertools import islice
from typing import Any

from outlast.errors import ConfigError, InvalidParametersError

LOOKUP_BATCH = 500
"""Targets that are looked up in the ledger together."""
_MAX_KEY_LENGTH = 500
_MAX_READ_SECONDS = 0.005  # seconds after which the targets read so far are handed out
_KEY_NAMES = ("source_id", "id", "key")

KeyedTarget = tuple[str, Any]


def id_text(value: Any) -> Any:
    """Return an id as it is stored: a whole number as decimal text, anything else unchanged."""
    return str(int(value)) if isinstance(value, int) and not isinstance(value, bool) else value


def target_key(target: Any) -> str:
    """Return the key of a target that is text, a whole number, or has an id.

    Raises:
        ConfigError: If the target has no key.
    """
    found = id_text(target)
    if isinstance(target, dict):
        found = id_text(next((target[name] for name in _KEY_NAMES if name in target), None))
    elif not isinstance(found, str):
        found = id_text(next((getattr(target, name) for name in _KEY_NAMES if hasattr(target, name)), None))
    if isinstance(found, str):
        return found
    raise ConfigError(
        f"a target of type {type(target).__name__} has no id; give the job key=…, a function that returns one"
    )


class TargetFeed:
    """Reads each target once, in order. Only one thread uses it.

    Args:
        targets: Any iterable; it is read lazily.
        key: Returns the key of a target: text, or a whole number.
        done: Returns which of some keys are already done; None if no target is.
        limit: Maximum number of targets.

    Attributes:
        total: Number of targets, if it is known before the end.
        size: The same without the limit.
        read: Number of targets that were read.
        handed: How many of them were handed out.
        skipped: How many of them were already done.
        is_over: Whether all were read.
        reader: Id of the thread that is in the user's iterable at this moment; 0 if none is.
        limit: Maximum number of targets.
        skips_done: Whether it looks up which targets are already done.

    Raises:
        ConfigError: If `targets` is not an iterable of targets.
    """

    def __init__(
        self,
        targets: Iterable[Any],
        key: Callable[[Any], str | int],
        done: Callable[[Sequence[str]], set[str]] | None,
        limit: int | None,
    ) -> None:
        value: object = targets
        if isinstance(value, str | bytes | AsyncIterable) or not isinstance(value, Iterable):
            raise ConfigError(
                f"targets is a {type(value).__name__}; it must be a list, a generator or another iterable"
            )
        self.size = size = len(targets) if isinstance(targets, Sized) else None
        self.total = size if limit is None or size is None else min(size, limit)
        self.read = self.handed = self.skipped = 0
        self.is_over, self.limit = False, limit
        self.reader = 0
        self.skips_done = done is not None
        self._targets: Iterator[Any] = iter(targets) if limit is None else islice(targets, limit)
        self._key = key
        self._done = done
        self._ready: deque[KeyedTarget] = deque()

    @property
    def known(self) -> int:
        """Number of known targets: the total, or those that were read if the total is not known."""
        return self.read if self.total is None or self.is_over else max(self.total, self.read)

    @property
    def has_ready(self) -> bool:
        """Whether there are targets that were read but not handed out."""
        return bool(self._ready)

    @property
    def has_more(self) -> bool:
        """Whether there may be targets that were not handed out."""
        return bool(self._ready) or not self.is_over

    def hand_out(self, number: int, into: Callable[[KeyedTarget], object]) -> None:
        """Hand out targets with their keys, each as soon as it is read: the iterable may block before the next one.

        Args:
            number: Maximum number of targets.
            into: Called with each target; returns True to stop.

        Raises:
            Exception: Whatever the user's iterable raises.
        """
        if self._done is None:
            self.read_into(number, into)
            return
        if not self._ready:
            read: list[KeyedTarget] = []
            self.read_into(LOOKUP_BATCH, read.append)
            self.drop_done(read)
        until = time.perf_counter() + _MAX_READ_SECONDS
        for _ in range(min(number, len(self._ready))):
            (each,) = self.ready(1)
            if into(each) or time.perf_counter() > until:
                return

    def ready(self, number: int) -> list[KeyedTarget]:
        """Return up to `number` targets that were read before and are not done."""
        ready = self._ready
        found = [ready.popleft() for _ in range(min(number, len(ready)))]
        self.handed += len(found)
        return found

    def read_into(self, number: int, into: Callable[[KeyedTarget], object]) -> None:
        """Read targets: up to `number`, or until 5 ms have passed. Call it in the thread that may read the iterable."""
        until, here, targets = time.perf_counter() + _MAX_READ_SECONDS, threading.get_ident(), self._targets
        for _ in range(number):
            self.reader = here
            try:
                target = next(targets)
            except StopIteration:
                self.is_over = True
                return
            finally:
                self.reader = 0
            self.read += 1
            key = self._checked_key(target)
            self.handed += self._done is None
            if into((key, target)) or time.perf_counter() > until:
                return

    def drop_done(self, read: list[KeyedTarget]) -> None:
        """Make the targets ready that are not already done; it may query a database."""
        if self._done is not None and read:
            known = self._done([key for key, _ in read])
            self.skipped += sum(key in known for key, _ in read)
            read = [(key, target) for key, target in read if key not in known]
        self._ready.extend(read)

    def _checked_key(self, target: Any) -> str:
        key: object = id_text(self._key(target))
        if not isinstance(key, str) or not 0 < len(key) <= _MAX_KEY_LENGTH or not _is_storable(key):
            raise InvalidParametersError(
                f"the key of a target is {str(key)[:80]!r}; it must be text of 1 to {_MAX_KEY_LENGTH} characters, "
                "or a whole number"
            )
        return key if type(key) is str else str.__str__(key)


def _is_storable(key: str) -> bool:
    try:
        key.encode()
    except UnicodeEncodeError:  # a lone surrogate
        return False
    return "\x00" not in key
