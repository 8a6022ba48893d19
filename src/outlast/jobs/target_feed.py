"""Targets on their way to those who handle them: streamed, named, and without those that are done already."""

import threading
import time
from collections import deque
from collections.abc import AsyncIterable, Callable, Iterable, Iterator, Sequence, Sized
from itertools import islice
from typing import Any

from outlast.errors import ConfigError, InvalidParametersError

LOOKUP_BATCH = 500
"""Targets whose past is looked up together."""
_LONGEST_KEY = 500
_MAX_READ_SECONDS = 0.005  # seconds after which what was read is handed out, where targets come slowly
_KEY_NAMES = ("source_id", "id", "key")

KeyedTarget = tuple[str, Any]


def target_key(target: Any) -> str:
    """Return what tells a target from others, for targets that are text, whole numbers, or have an id.

    Raises:
        ConfigError: If it cannot be told.
    """
    if isinstance(target, str):
        return target
    if isinstance(target, int):
        return str(target)
    if isinstance(target, dict):
        found = next((target[name] for name in _KEY_NAMES if name in target), None)
    else:
        found = next((getattr(target, name) for name in _KEY_NAMES if hasattr(target, name)), None)
    if isinstance(found, str | int):
        return str(found)
    message = (
        f"a target is a {type(target).__name__}; the setting `key` of the job has to say what tells one from another"
    )
    raise ConfigError(message)


class TargetFeed:
    """Reads targets, each once, in the order in which they come. Only one thread reads, and only it takes.

    Args:
        targets: Any iterable; it is read as far as it is needed.
        key: Tells one target from another.
        done: Of some keys, says which are done already; None where nobody knows.
        limit: How many targets at most.

    Attributes:
        total: How many there are, where that can be known before the end.
        read: How many were read.
        handed: How many of them were handed out.
        skipped: How many of them were done already.
        is_over: Whether all were read.
        reader: Number of the thread in which the user's iterable is at work at this moment; 0 if it is not.
        asks: Whether it is asked which targets are done already.

    Raises:
        ConfigError: If these are no targets.
    """

    def __init__(
        self,
        targets: Iterable[Any],
        key: Callable[[Any], str],
        done: Callable[[Sequence[str]], set[str]] | None,
        limit: int | None,
    ) -> None:
        """Read nothing yet."""
        given: object = targets
        if isinstance(given, str | bytes | AsyncIterable) or not isinstance(given, Iterable):
            message = f"the targets are a {type(given).__name__}; give a list, a generator or another iterable of them"
            raise ConfigError(message)
        size = len(targets) if isinstance(targets, Sized) else None
        self.total = size if limit is None or size is None else min(size, limit)
        self.read = self.handed = self.skipped = 0
        self.is_over = False
        self.reader = 0
        self.asks = done is not None
        self._targets: Iterator[Any] = iter(targets) if limit is None else islice(targets, limit)
        self._key = key
        self._done = done
        self._ready: deque[KeyedTarget] = deque()

    @property
    def known(self) -> int:
        """How many targets are known of: all, or those that were read where nobody knows how many there are."""
        return self.read if self.total is None or self.is_over else max(self.total, self.read)

    @property
    def has_ready(self) -> bool:
        """Whether there are targets that were read and not handed out."""
        return bool(self._ready)

    @property
    def has_more(self) -> bool:
        """Whether there may be targets that were not handed out."""
        return bool(self._ready) or not self.is_over

    def take(self, number: int) -> list[KeyedTarget]:
        """Hand out targets with their keys; perhaps none, though there are more.

        Raises:
            Exception: Whatever the iterable of the user's raises.
        """
        found: list[KeyedTarget] = []
        self.hand_out(number, found.append)
        return found

    def hand_out(self, number: int, into: Callable[[KeyedTarget], object]) -> None:
        """Hand out targets with their keys, each as soon as it is read: the iterable may let the next one wait.

        Args:
            number: How many at most.
            into: Takes each; what it returns tells whether it wants no more.
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
        """Hand out targets that were read before, and are not done already."""
        ready = self._ready
        found = [ready.popleft() for _ in range(min(number, len(ready)))]
        self.handed += len(found)
        return found

    def read_into(self, number: int, into: Callable[[KeyedTarget], object]) -> None:
        """Read targets: so many, or as many as come within a moment. In the thread that may read the iterable."""
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
            key = self._checked(target)
            self.handed += self._done is None
            if into((key, target)) or time.perf_counter() > until:
                return

    def drop_done(self, read: list[KeyedTarget]) -> None:
        """Make ready what was read, without what is done already; that may ask a database."""
        if self._done is not None and read:
            known = self._done([key for key, _ in read])
            self.skipped += sum(key in known for key, _ in read)
            read = [(key, target) for key, target in read if key not in known]
        self._ready.extend(read)

    def _checked(self, target: Any) -> str:
        given: object = self._key(target)
        key = str(given) if isinstance(given, int) else given
        if not isinstance(key, str) or not 0 < len(key) <= _LONGEST_KEY or not _is_storable(key):
            message = f"the key of a target is {str(key)[:80]!r}; it has to be text of 1 to {_LONGEST_KEY} characters"
            raise InvalidParametersError(message)
        return key if type(key) is str else str.__str__(key)


def _is_storable(key: str) -> bool:
    if key.isascii():
        return "\x00" not in key
    try:
        key.encode()
    except UnicodeEncodeError:  # half of a character
        return False
    return "\x00" not in key
