"""What is known of an exception class and its bases, gathered from the library files."""

from outlast.classify.libraries import entry_of
from outlast.failure import Category, Origin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from outlast.classify.libraries.library import Reader

__all__ = ["Known", "look_up"]


class Known:
    """What is known of an exception class and its bases."""

    __slots__ = ("builtin", "category", "described", "lent", "name", "origin", "read")

    def __init__(
        self,
        name: str,
        origin: Origin,
        category: Category | None,
        read: "Reader | None",
        *,
        described: bool,
        builtin: bool,
    ) -> None:
        self.name = name
        self.described = described
        self.builtin = builtin
        self.lent = not described and category is not None
        self.origin = origin
        self.category = category
        self.read = read


def look_up(kind: type) -> tuple[Known, bool]:
    """Find what is known of a class; the second value is False where a file could not be read just now."""
    name, origin, category, read, lasting, described = "", Origin.UNKNOWN, None, None, True, False
    for each in kind.__mro__:
        module: object = each.__module__  # any object at all, where a class lies about it
        try:
            entry = entry_of(module.partition(".")[0], each.__name__) if isinstance(module, str) else None
        except Exception:  # noqa: BLE001  # our own file cannot be opened, for instance: out of file descriptors
            lasting = False
            continue
        if entry is None:
            continue
        if not name:
            name, origin = entry.name, entry.origin
        category = category or entry.category
        read = read or entry.read
        described = described or each is kind or each.__module__.partition(".")[0] == _package_of(kind)
    builtin = kind.__module__ == "builtins"
    known = Known(name or kind.__name__, origin, category, read, described=described or builtin, builtin=builtin)
    return known, lasting


def _package_of(kind: type) -> str:
    module: object = kind.__module__
    return module.partition(".")[0] if isinstance(module, str) else ""
