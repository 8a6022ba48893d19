"""The description of a foreign library's exceptions."""

from outlast.classify.safe_access import read_response, safe_error, safe_getattr
from outlast.failure import Category, Evidence, Origin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    Reader = Callable[[Any], "Found"]

Found = Evidence | BaseException | None
"""The result of a reader: evidence, an error that is wrapped in this one, or None."""


def wrapped(*names: str) -> "Reader":
    """Return a reader of the first of these attributes that is another error."""

    def read(error: object) -> Found:
        return safe_error(error, *names)

    read.__doc__ = f"The wrapped error, in {' or '.join(f'`{name}`' for name in names)}."
    return read


def read_attached_response(error: object) -> Found:
    """The response and its request."""
    return read_response(safe_getattr(error, "response"), safe_getattr(error, "request"))


class ExceptionEntry:
    """The description of one exception class."""

    def __init__(
        self, name: str, origin: Origin, category: Category | None, read: "Reader | None", *, says_nothing: bool
    ) -> None:
        self.name = name
        self.origin = origin
        self.category = category
        self.read = read
        self.says_nothing = says_nothing


class Library:
    """The exceptions of one library, by name; the library is never imported.

    A class is named by its top-level package and its own name, ``httpx.ConnectError``, since the module in between
    changes from release to release. Subclasses inherit the description of their bases. Texts hold several names,
    separated by spaces.

    Args:
        title: The library's display name.
        packages: The top-level packages of all classes that are named without one.
        origin: The kind of system that the library is used for.
        origins: Different origins of some of its packages, by top-level package.
        categories: Class names by category, used if the error shows nothing more specific.
        readers: Functions that read the evidence of an error, by class names. Evidence comes before `categories`.
        says_nothing: Class names that mean nothing by themselves; their causes and their text are read instead.
    """

    def __init__(
        self,
        *,
        title: str,
        packages: str,
        origin: Origin,
        origins: "Mapping[str, Origin] | None" = None,
        categories: "Mapping[Category, str]",
        readers: "Mapping[str, Reader] | None" = None,
        says_nothing: str = "",
    ) -> None:
        def qualify(names: str) -> str:
            return " ".join(
                name if "." in name else " ".join(f"{package}.{name}" for package in packages.split())
                for name in names.split()
            )

        self.title = title
        self.origin = origin
        self.origins = origins or {}
        self.categories = {category: qualify(names) for category, names in categories.items()}
        self.readers = {name: read for names, read in (readers or {}).items() for name in qualify(names).split()}
        self.says_nothing = qualify(says_nothing)

    def entries(self) -> dict[str, ExceptionEntry]:
        """Return the description of each class, by name."""
        categories = {name: category for category, names in self.categories.items() for name in names.split()}
        says_nothing = self.says_nothing.split()
        return {
            name: ExceptionEntry(
                name,
                self.origins.get(name.partition(".")[0], self.origin),
                categories.get(name),
                self.readers.get(name),
                says_nothing=name in says_nothing,
            )
            for name in {*categories, *self.readers, *says_nothing}
        }
