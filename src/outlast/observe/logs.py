"""What notifications write to the log, under ``outlast.notify``. A handler that raises disturbs nothing."""

import logging
from contextlib import suppress

from outlast.failure import Failure
from outlast.record.keys import failure_keys
from outlast.record.tracebacks import one_line

__all__ = ["log", "tell", "tell_failure"]

log = logging.getLogger("outlast.notify")


def tell(level: int, text: str, /, *args: object, **keys: object) -> None:
    """Write a line."""
    with suppress(Exception):
        log.log(level, text, *args, extra=keys)


def tell_failure(level: int, what: str, failure: Failure, /, **keys: object) -> None:
    """Write a line about a failure, with the keys that every log of a failure has."""
    tell(
        level,
        "%s (%s): %s: %s",
        what,
        failure.category.value,
        failure.exception_name,
        one_line(failure.message),
        **failure_keys(failure),
        **keys,
    )
