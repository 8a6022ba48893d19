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
        cacheable: Whether it may be kept: not if a library file could not be read.
    """

    def __init__(self, kind: type) -> None:
        name, own = "", _package_of(kind)
        self.origin = Origin.UNKNOWN
        self.category: Category | None = None
        self.read: Reader | None = None
        self.builtin = self.described = kind.__module__ == "builtins"
        self.cacheable, weak = True, False
        for each in kind.__mro__:
            package = _package_of(each)
            try:
                entry = entry_of(package, each.__name__)
            except Exception:  # noqa: BLE001  # the file cannot be opened, for instance: out of file descriptors
                self.cacheable = False
                continue
            if entry is None:
                continue
            if not name:
                name, self.origin = entry.name, entry.origin
            if self.category is None and entry.category is not None:
                self.category, weak = entry.category, package == "builtins"
            self.read = self.read or entry.read
            self.described = self.described or package == own
        self.name = name or kind.__name__
        self.inherited = not self.described and self.category is not None
        self.weak = weak and self.inherited


def _package_of(kind: type) -> str:
    module: object = kind.__module__  # a class may set it to any object
    return module.partition(".")[0] if isinstance(module, str) else ""
