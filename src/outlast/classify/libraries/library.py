"""The description of a foreign library's exceptions."""

from outlast.failure import Category, Evidence, Origin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    Found = Evidence | BaseException | None
    """The result of a reader: evidence, an error that is wrapped in this one, or None."""
    Reader = Callable[[Any], Found]


class ExceptionEntry:
    """The description of one exception class."""

    __slots__ = ("category", "name", "origin", "read", "says_nothing")

    def __init__(
        self,
        name: str,
        origin: Origin,
        category: Category | None = None,
        read: "Reader | None" = None,
        *,
        says_nothing: bool = False,
    ) -> None:
        self.name = name
        self.origin = origin
        self.category = category
        self.read = read
        self.says_nothing = says_nothing


class Library:
    """The exceptions of one library, by name; the library is never imported.

    A class is named by its top-level package and its own name, ``httpx.ConnectError``, since the module in between
    changes from release to release. Subclasses inherit the description of their bases.

    Args:
        title: The library's display name.
        origin: The kind of system that the library is used for.
        origins: Different origins of some of its packages, by top-level package.
        categories: Class names by category, used if the error shows nothing more specific.
        readers: Functions that read the evidence of an error, by class name. Evidence comes before `categories`.
        says_nothing: Class names that mean nothing by themselves; their causes and their text are read instead.
    """

    def __init__(
        self,
        *,
        title: str,
        origin: Origin,
        origins: "Mapping[str, Origin] | None" = None,
        categories: "Mapping[Category, str] | None" = None,
        readers: "Mapping[str, Reader] | None" = None,
        says_nothing: str = "",
    ) -> None:
        self.title = title
        self.origin = origin
        self.origins = origins or {}
        self.categories = categories or {}
        self.readers = readers or {}
        self.says_nothing = says_nothing

    def entries(self) -> dict[str, ExceptionEntry]:
        """Return the description of each class, by name."""
        category_by_name = {name: category for category, names in self.categories.items() for name in names.split()}
        says_nothing = set(self.says_nothing.split())
        return {
            name: ExceptionEntry(
                name,
                self._origin_of(name),
                category_by_name.get(name),
                self.readers.get(name),
                says_nothing=name in says_nothing,
            )
            for name in {*category_by_name, *self.readers, *says_nothing}
        }

    def _origin_of(self, name: str) -> Origin:
        return self.origins.get(name.partition(".")[0], self.origin)
