"""How one file describes what the exceptions of a foreign library mean."""

from outlast.failure import Category, Evidence, Origin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    Found = Evidence | BaseException | None
    """What a reader may answer: evidence, another error that is wrapped in this one, or nothing."""
    Reader = Callable[[Any], Found]


class ExceptionEntry:
    """What is known of one exception class."""

    __slots__ = ("category", "name", "origin", "read", "silent")

    def __init__(
        self,
        name: str,
        origin: Origin,
        category: Category | None = None,
        read: "Reader | None" = None,
        *,
        silent: bool = False,
    ) -> None:
        """Keep the fields."""
        self.name = name
        self.origin = origin
        self.category = category
        self.read = read
        self.silent = silent


class Library:
    """The exceptions of one library, named but never imported.

    A class is named by its top-level package and its own name, ``httpx.ConnectError``, since the module in between
    moves from release to release. Subclasses inherit what is said of their bases.

    Args:
        title: The library's name for people.
        origin: What is talked to through it.
        origins: What is talked to through those of its packages that differ, by top-level package.
        says: Class names by what they mean when nothing more telling is found in the error.
        reads: Functions that find the evidence within an error, by class name. Evidence comes before `says`.
        silent: Class names that mean nothing by themselves; their causes and their text are judged instead.
    """

    def __init__(
        self,
        *,
        title: str,
        origin: Origin,
        origins: "Mapping[str, Origin] | None" = None,
        says: "Mapping[Category, str] | None" = None,
        reads: "Mapping[str, Reader] | None" = None,
        silent: str = "",
    ) -> None:
        """Keep the fields."""
        self.title = title
        self.origin = origin
        self.origins = origins or {}
        self.says = says or {}
        self.reads = reads or {}
        self.silent = silent

    def entries(self) -> dict[str, ExceptionEntry]:
        """Return what is said of each class, by name."""
        categories = {name: category for category, names in self.says.items() for name in names.split()}
        silent = set(self.silent.split())
        return {
            name: ExceptionEntry(
                name, self._origin_of(name), categories.get(name), self.reads.get(name), silent=name in silent
            )
            for name in {*categories, *self.reads, *silent}
        }

    def _origin_of(self, name: str) -> Origin:
        return self.origins.get(name.partition(".")[0], self.origin)
