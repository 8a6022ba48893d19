"""Failures as immutable values: `Category`, `Origin`, `Evidence` and `Failure`.

`Evidence` is what an error or a response shows. The classifier reads it once and makes a `Failure` from it: frozen,
redacted, safe to store. Everything after the classifier works on failures only.
"""

import os
from enum import StrEnum
from functools import cache, cached_property, lru_cache

from outlast.errors import ConfigError

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType
    from typing import Any, ClassVar, NoReturn, Self


# Not a frozen dataclass: that module imports `inspect` and generates code for every class, which costs more than all
# of Outlast's own imports. Values that ``import outlast`` loads use this base instead.


class Frozen:
    """Base of immutable values. A subclass annotates its fields and fills ``self.__dict__`` in `__init__`."""

    _fields: "ClassVar[tuple[str, ...]]" = ()

    def __init_subclass__(cls) -> None:
        """Use the annotated names as the fields."""
        cls._fields = tuple(name for name in cls.__annotations__ if not name.startswith("_"))

    def replace(self, **changes: "Any") -> "Self":
        """Return the same value with some fields changed."""
        return type(self)(**{name: getattr(self, name) for name in self._fields} | changes)

    def __setattr__(self, name: str, value: object) -> "NoReturn":
        """Raise AttributeError: a value never changes."""
        raise AttributeError(f"{type(self).__name__} is immutable; use replace({name}=…)")

    def __delattr__(self, name: str) -> "NoReturn":
        """Raise AttributeError: a value never changes."""
        raise AttributeError(f"{type(self).__name__} is immutable")

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


_INTERACTIVE_FILES = ("<stdin>", "<ipython-input")


@cache
def _library_folders() -> tuple[str, ...]:
    folders = {os.path.dirname(os.__file__), os.path.dirname(os.path.abspath(__file__))}
    return tuple(os.path.normcase(folder) + os.sep for folder in folders)


@lru_cache(maxsize=4096)
def _user_file(filename: str) -> str | None:
    """Return the last two parts of the path, which are the same on every machine; None for library code."""
    if filename.startswith("<"):
        return filename if filename.startswith(_INTERACTIVE_FILES) else None
    path = os.path.normcase(filename)
    if path.startswith(_library_folders()) or "site-packages" in path or "dist-packages" in path:
        return None
    folder, name = os.path.split(filename)
    return f"{os.path.basename(folder)}/{name}" if folder else name


def location_of(traceback: "TracebackType | None") -> str:
    """Return ``folder/file.py:function`` of the innermost frame in the user's code, or an empty string."""
    found = ""
    while traceback is not None:
        code = traceback.tb_frame.f_code
        file = _user_file(code.co_filename)
        if file is not None:
            found = f"{file}:{code.co_qualname}"
        traceback = traceback.tb_next
    return found


def first_line(text: str, limit: int | None = None) -> str:
    """Return the first line of a text, at most `limit` characters: a text cannot imitate another log record."""
    line, _, more = text.partition("\n")
    return f"{line[:limit]} …" if more.strip() or line[:limit] != line else line


class Category(StrEnum):
    """The kinds of failure; each has one meaning for a call, a target, a source and a task."""

    NETWORK = "network"
    RATE_LIMIT = "rate_limit"
    API_TEMPORARY = "api_temporary"
    DATABASE_BUSY = "database_busy"
    SYSTEM = "system"
    ACCESS_DENIED = "access_denied"
    NOT_FOUND = "not_found"
    INVALID_PARAMETERS = "invalid_parameters"
    AUTHENTICATION = "authentication"
    QUOTA_EXHAUSTED = "quota_exhausted"
    CONFIGURATION = "configuration"
    INTEGRITY = "integrity"
    DATA = "data"
    UNKNOWN = "unknown"

    __hash__ = str.__hash__  # the enum's own is slower: it is written in Python, and every decision looks categories up

    @property
    def retryable(self) -> bool:
        """Whether a retry may help, judged by the category alone."""
        return self in RETRYABLE

    @classmethod
    def parse(cls, value: object) -> "Category":
        """Return the category with this name.

        Raises:
            ConfigError: If it does not exist; the message lists the valid names.
        """
        try:
            return cls(value)  # type: ignore[arg-type]  # any object may be passed; the enum checks it
        except ValueError:
            names = ", ".join(cls)
            raise ConfigError(f"{value!r} is not a category; choose one of: {names}") from None


RETRYABLE = frozenset(
    {Category.NETWORK, Category.RATE_LIMIT, Category.API_TEMPORARY, Category.DATABASE_BUSY, Category.SYSTEM}
)
"""The categories for which a retry may help. As `retry_on` it means every failure the classifier calls retryable."""


class Origin(StrEnum):
    """The kind of system that the program was using when it failed."""

    HTTP = "http"
    S3 = "s3"
    AWS = "aws"
    DB = "db"
    CACHE = "cache"
    MESSAGING = "messaging"
    RPC = "rpc"
    MAIL = "mail"
    NETWORK = "network"
    FILE = "file"
    PROCESS = "process"
    BROWSER = "browser"
    PROGRAM = "program"
    UNKNOWN = "unknown"

    __hash__ = str.__hash__  # as for categories


def _lowercase_names(headers: "Mapping[str, str]") -> "Mapping[str, str]":
    """Return the headers with lowercase names; the same object if they are lowercase already."""
    names: list[object] = list(headers)
    if all(type(name) is str and name.islower() for name in names):
        return headers
    low = [(name.decode("latin-1") if isinstance(name, bytes) else str(name)).lower() for name in names]
    return dict(zip(low, headers.values(), strict=True))


class Evidence(Frozen):
    """What a response or an error shows, before it is classified.

    Every field is optional. `classify` accepts an Evidence instead of an exception, so a response that was not raised
    can be classified too; `evidence_of` reads one.

    Attributes:
        origin: The kind of system that failed.
        http_status: Status of the response, 100 to 599.
        headers: Response headers that affect the wait, with lowercase names.
        body: Start of the response body, if it was read already.
        credentials_sent: Whether the request carried credentials; None if unknown.
        sqlstate: SQLSTATE of a database error, five characters.
        errno: Error number of the operating system.
        code: Error code of an API, such as ``SlowDown`` or ``quotaExceeded``.
        category: The category that the error's type implies, if any.
        retryable: Overrides whether the category is retryable.
        retry_after: Seconds to wait, from a source other than a header; used unchanged.
        message: Error text; defaults to that of the exception.
        exception_name: Name of the exception class.
    """

    origin: Origin | None
    http_status: int | None
    headers: "Mapping[str, str]"
    body: str
    credentials_sent: bool | None
    sqlstate: str | None
    errno: int | None
    code: str | None
    category: Category | None
    retryable: bool | None
    retry_after: float | None
    message: str
    exception_name: str

    def __init__(  # noqa: PLR0913  # the fields above
        self,
        *,
        origin: Origin | None = None,
        http_status: int | None = None,
        headers: "Mapping[str, str] | None" = None,
        body: str = "",
        credentials_sent: bool | None = None,
        sqlstate: str | None = None,
        errno: int | None = None,
        code: str | None = None,
        category: Category | None = None,
        retryable: bool | None = None,
        retry_after: float | None = None,
        message: str = "",
        exception_name: str = "",
    ) -> None:
        self.__dict__.update(
            origin=origin,
            http_status=http_status,
            headers=_lowercase_names(headers) if headers else {},
            body=body,
            credentials_sent=credentials_sent,
            sqlstate=sqlstate,
            errno=errno,
            code=code,
            category=category,
            retryable=retryable,
            retry_after=retry_after,
            message=message,
            exception_name=exception_name,
        )

    def __hash__(self) -> int:
        """Hash the fields."""
        others = (getattr(self, name) for name in self._fields if name != "headers")
        return hash((*others, *sorted(self.headers.items())))


UNREADABLE = "unreadable: its own code raised an error"
"""The rule of a failure whose error could not be judged, because it raised while it was read."""
_TEXT_FIELDS = frozenset({"code", "exception_name", "message", "rule", "location"})


class Failure(Frozen):
    """A classified error: redacted, truncated, and safe to log, store and show.

    The classifier may leave the texts out until they are asked for: most decisions need none. Until then the failure
    refers to the error; `settled` ends that.

    Attributes:
        category: What kind of failure it is.
        retryable: Whether a retry may help.
        origin: The kind of system that failed.
        http_status: HTTP status, if there was a response.
        code: SQLSTATE, errno name or API error code, if there was one.
        retry_after: Seconds that the server asks to wait; None if it did not ask.
        capped: Whether the server asked for a longer wait than `retry_after`.
        exception_name: Name of the exception class.
        message: Redacted and truncated text of the error.
        rule: Name of the rule that decided.
        location: File and function of the innermost frame in the user's code, as ``file.py:function``.
        exact: Whether `retry_after` is used unchanged; otherwise it is a lower bound.
    """

    category: Category
    retryable: bool
    origin: Origin
    http_status: int | None
    code: str | None
    retry_after: float | None
    capped: bool
    exception_name: str
    message: str
    rule: str
    location: str
    exact: bool

    def __init__(  # noqa: PLR0913, PLR0917  # the fields above
        self,
        category: Category,
        retryable: bool,  # noqa: FBT001  # a field of a value
        origin: Origin = Origin.UNKNOWN,
        http_status: int | None = None,
        code: str | None = None,
        retry_after: float | None = None,
        capped: bool = False,  # noqa: FBT001, FBT002  # a field of a value
        exception_name: str = "",
        message: str = "",
        rule: str = "",
        location: str = "",
        exact: bool = False,  # noqa: FBT001, FBT002  # a field of a value
    ) -> None:
        self.__dict__.update(
            category=category,
            retryable=retryable,
            origin=origin,
            http_status=http_status,
            code=code,
            retry_after=retry_after,
            capped=capped,
            exception_name=exception_name,
            message=message,
            rule=rule,
            location=location,
            exact=exact,
        )

    @classmethod
    def with_lazy_texts(cls, read_texts: "Callable[[], dict[str, str | None]]", *facts: "Any", exact: bool) -> "Self":
        """Return a failure whose texts are read when one of them is first asked for.

        Args:
            read_texts: Returns the texts by field name; must not raise.
            facts: The category, whether it is retryable, the origin, the HTTP status, `retry_after` and `capped`.
            exact: As in the fields.
        """
        failure = cls.__new__(cls)
        names = ("category", "retryable", "origin", "http_status", "retry_after", "capped")
        failure.__dict__.update(zip(names, facts, strict=True), exact=exact, _read_texts=read_texts)
        return failure

    def __getattr__(self, name: str) -> "Any":
        """Read the texts."""
        read_texts = self.__dict__.get("_read_texts")
        if read_texts is None and name in self.__dict__:  # another thread has read them meanwhile
            return self.__dict__[name]
        if read_texts is None or name not in _TEXT_FIELDS:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        self.__dict__.update(read_texts())
        self.__dict__.pop("_read_texts", None)
        return self.__dict__[name]

    def settled(self) -> "Self":
        """Return this failure with its texts read, so that it refers to no error."""
        _ = self.message
        return self

    def __getstate__(self) -> "dict[str, Any]":
        """Return the state for pickle and copy."""
        return self.settled().__dict__

    @cached_property
    def fingerprint(self) -> str:
        """Sixteen hex digits, the same for the same cause; ids, hosts, numbers and URLs are ignored."""
        from outlast.fingerprint import fingerprint  # noqa: PLC0415  # computed only when needed

        return fingerprint(self.exception_name, self.http_status, self.code, self.message, self.location)

    @property
    def unreadable(self) -> bool:
        """Whether the error could not be judged, because its own code raised; it is never retried."""
        return bool(self.__dict__.get("rule") == UNREADABLE)  # texts that are read later never say so

    @property
    def summary(self) -> str:
        """The exception class and the first line of the message."""
        return f"{self.exception_name}: {first_line(self.message)}"

    def log_keys(self) -> "dict[str, Any]":
        """Return the keys of log records; the text is `failure_message`, since logging reserves ``message``."""
        return {
            "error_category": self.category.value,
            "origin": self.origin.value,
            "http_status": self.http_status,
            "exception_name": self.exception_name,
            "failure_message": self.message,
        }

    def to_dict(self) -> "dict[str, Any]":
        """Return the fields and the fingerprint as JSON-ready values."""
        return {name: getattr(self, name) for name in self._fields} | {"fingerprint": self.fingerprint}

    def to_json(self) -> str:
        """Return the failure as one line of JSON."""
        import json  # noqa: PLC0415  # takes milliseconds to import, and a retry does not need it

        return json.dumps(self.to_dict(), ensure_ascii=False)

    @classmethod
    def from_dict(cls, data: "Mapping[str, Any]") -> "Self":
        """Build a failure from the result of `to_dict`; unknown keys of a later version are ignored."""
        known: dict[str, Any] = {name: data[name] for name in cls._fields if name in data}
        known["category"] = Category(known["category"])
        known["origin"] = Origin(known.get("origin", Origin.UNKNOWN))
        failure = cls(**known)
        if stored := data.get("fingerprint"):
            failure.__dict__["fingerprint"] = stored  # groups stay together if a later version normalises differently
        return failure

    @classmethod
    def from_json(cls, text: str) -> "Self":
        """Build a failure from the result of `to_json`."""
        import json  # noqa: PLC0415  # takes milliseconds to import, and a retry does not need it

        return cls.from_dict(json.loads(text))

    def __str__(self) -> str:
        """Return a one-line description."""
        parts = [self.category.value]
        if self.http_status is not None:
            parts.append(f"HTTP {self.http_status}")
        if self.code:
            parts.append(self.code)
        head = ", ".join(parts)
        return f"{self.exception_name or 'response'} ({head}): {self.message}"
