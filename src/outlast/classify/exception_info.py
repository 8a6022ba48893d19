"""What the library files say about the class of an exception."""

from outlast.classify.libraries import entry_of
from outlast.failure import Category, Origin

TYPE_CHECKING = False

if TYPE_CHECKING:
    from outlast.classify.libraries.library import Reader


class ExceptionInfo:
    """What the library files say about an exception class and its bases.

    Attributes:
        name: Qualified name of the nearest described class.
        origin: The kind of system that the library uses.
        category: The category of the class, if it has one.
        read: Reads the evidence of an error, if the library has a reader.
        described: Whether its own library is described, or it is built in.
        builtin: Whether it is a built-in class.
        inherited: Whether the category comes from a base class of another library.
        weak: Whether it comes from a built-in base class, which says little about a class of an unknown library.
    """

    def __init__(
        self,
        name: str,
        origin: Origin,
        category: Category | None,
        read: "Reader | None",
        *,
        described: bool,
        builtin: bool,
        weak: bool,
    ) -> None:
        self.name = name
        self.described = described
        self.builtin = builtin
        self.inherited = not described and category is not None
        self.weak = weak and self.inherited
        self.origin = origin
        self.category = category
        self.read = read


def exception_info(kind: type) -> tuple[ExceptionInfo, bool]:
    """Return what is known about a class, and whether it may be cached: not if a library file could not be read."""
    name, origin, category, read, cacheable, described, weak = "", Origin.UNKNOWN, None, None, True, False, False
    for each in kind.__mro__:
        package = _package_of(each)
        try:
            entry = entry_of(package, each.__name__)
        except Exception:  # noqa: BLE001  # the file cannot be opened, for instance: out of file descriptors
            cacheable = False
            continue
        if entry is None:
            continue
        if not name:
            name, origin = entry.name, entry.origin
        if category is None and entry.category is not None:
            category, weak = entry.category, package == "builtins"
        read = read or entry.read
        described = described or package == _package_of(kind)
    builtin = kind.__module__ == "builtins"
    described = described or builtin
    info = ExceptionInfo(name or kind.__name__, origin, category, read, described=described, builtin=builtin, weak=weak)
    return info, cacheable


def _package_of(kind: type) -> str:
    module: object = kind.__module__  # a class may set it to any object
    return module.partition(".")[0] if isinstance(module, str) else ""
