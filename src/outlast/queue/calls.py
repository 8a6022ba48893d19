"""A call in another process, as words: where the function is, and how the call ended."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from outlast.errors import ConfigurationError
from outlast.queue.verdict import Verdict

__all__ = ["Died", "Raised", "Reply", "Returned", "Target", "TimedOut", "target_of"]


class Target(NamedTuple):
    """Where a child finds the function.

    Attributes:
        module: Name of its module.
        name: Its qualified name there.
        main: File of the program, where the function stands in it; else None.
    """

    module: str
    name: str
    main: str | None = None


class Returned(NamedTuple):
    """The call returned; `text` is the result as JSON where it was asked for."""

    text: str | None


class Raised(NamedTuple):
    """The call raised an error.

    Attributes:
        verdict: The judgement on it.
        memory: Bytes that it was allowed to take, where it failed for want of memory; else None.
        taken: Bytes of them that it had then.
    """

    verdict: Verdict
    memory: int | None = None
    taken: int = 0


class TimedOut(NamedTuple):
    """The call took longer than `seconds` and was killed, with every process that it had started."""

    seconds: float


class Died(NamedTuple):
    """The process ended in the middle of the call.

    Attributes:
        code: Its exit code; a signal as a negative number; None if the children were closed before the call began.
        stderr: The end of what the call had written, redacted.
    """

    code: int | None
    stderr: str


Reply = Returned | Raised | TimedOut | Died


def target_of(function: Callable[..., Any]) -> Target:
    """Return where a child finds a function.

    Raises:
        ConfigurationError: If it cannot: the function stands inside another one, or in no file.
    """
    module, name = function.__module__, function.__qualname__
    if "<" in name:
        message = f"{name} stands inside a function, where no other process finds it; move it to its module"
        raise ConfigurationError(message)
    if module != "__main__":
        return Target(module, name)
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    if spec is not None:  # python -m package
        return Target(spec.name, name)
    file = getattr(main, "__file__", None)
    if file is None or not Path(file).is_file():
        message = f"{name} stands in no file, where no other process finds it; move it to a module"
        raise ConfigurationError(message)
    return Target(module, name, str(Path(file).resolve()))
