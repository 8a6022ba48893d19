"""Words that people write for members of an enumeration."""

from enum import StrEnum
from typing import TypeVar

from outlast.errors import ConfigError

__all__ = ["chosen"]

E = TypeVar("E", bound=StrEnum)


def chosen(kind: type[E], value: object) -> E:
    """Return the member of an enumeration that has a value.

    Raises:
        ConfigError: If there is none; the message lists the valid ones.
    """
    try:
        return kind(str(value))
    except ValueError:
        message = f"{value!r} is no {kind.__name__.lower()}; choose one of: {', '.join(kind)}"
        raise ConfigError(message) from None
