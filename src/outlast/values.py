"""Immutable values: compared, hashed and shown by their fields.

They do what frozen dataclasses do. The standard module brings `inspect` along and generates code for every class, which
together cost more than all of Outlast's own imports; what is loaded with ``import outlast`` therefore uses this base.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar, NoReturn, Self

__all__ = ["Frozen"]


class Frozen:
    """Base of immutable values. A subclass annotates its fields and fills ``self.__dict__`` in `__init__`."""

    _fields: "ClassVar[tuple[str, ...]]" = ()

    def __init_subclass__(cls) -> None:
        """Take the annotated names as the fields."""
        cls._fields = tuple(name for name in cls.__annotations__ if not name.startswith("_"))

    def replace(self, **changes: "Any") -> "Self":
        """Return the same value with some fields changed."""
        return type(self)(**{name: getattr(self, name) for name in self._fields} | changes)

    def __setattr__(self, name: str, value: object) -> "NoReturn":
        """Refuse: a value never changes."""
        message = f"{type(self).__name__} is immutable; use replace({name}=…)"
        raise AttributeError(message)

    def __delattr__(self, name: str) -> "NoReturn":
        """Refuse: a value never changes."""
        message = f"{type(self).__name__} is immutable"
        raise AttributeError(message)

    def __eq__(self, other: object) -> bool:
        """Compare field by field."""
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self._fields)

    def __hash__(self) -> int:
        """Hash the fields."""
        return hash((type(self), *(getattr(self, name) for name in self._fields)))

    def __repr__(self) -> str:
        """Show the fields."""
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self._fields)
        return f"{type(self).__name__}({shown})"
