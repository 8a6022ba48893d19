"""Injects faults: makes a function or a point of the program fail with an error of a category.

>>> with inject_faults() as faults:
...     faults.fail("shop.client.fetch", "rate_limit", retry_after=3, times=2)
...     faults.fail("after-upload", "network", rate=0.2, seed=1)
...     collect()
"""

import errno
import functools
import importlib
import inspect
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import KW_ONLY, dataclass
from functools import partial
from random import Random
from types import CellType, FunctionType, ModuleType
from typing import Any, NamedTuple

from outlast.classify import classify
from outlast.decide.backoff import check_count
from outlast.errors import ConfigError
from outlast.failure import Category
from outlast.run import points
from outlast.run.retry import is_coroutine_function

TYPE_CHECKING = False


class NotReachedError(AssertionError):
    """The program did not reach the place where it should fail or crash, so the test proves nothing."""


def passed_points_text(names: Iterable[str]) -> str:
    """Return a text about which points were passed, and how often."""
    counts = Counter(names)
    if not counts:
        return "no point was passed"
    passed = ", ".join(f"{name!r}" if times == 1 else f"{name!r} ({times} times)" for name, times in counts.items())
    return f"passed points: {passed}"


def sample_error(category: Category | str, *, retry_after: float | None = None) -> Exception:
    """Return a real error that the classifier puts in this category.

    Args:
        category: A `Category`, or its name.
        retry_after: Seconds that the server asks to wait; only for categories that a server reports.

    Raises:
        ConfigError: If the category does not exist, no server reports it, or your own rules classify the error
            otherwise.
    """
    wanted = Category.parse(category)
    if retry_after is None:
        error = _SAMPLES[wanted]()
    elif wanted in _STATUSES:
        error = _http_error(*_STATUSES[wanted], retry_after)
    else:
        raise ConfigError(
            f"{wanted} is not an answer of a server, so it has no retry_after; leave it out, or give an exception"
        )
    found = classify(error)
    if found.category is not wanted:
        raise ConfigError(
            f"your rule {found.rule!r} classifies {type(error).__name__} ({error}) as {found.category}, not as "
            f"{wanted}; give the exception that is {wanted} in your program"
        )
    return error


_STATUSES = {
    Category.RATE_LIMIT: (429, "Too Many Requests"),
    Category.API_TEMPORARY: (503, "Service Unavailable"),
    Category.ACCESS_DENIED: (403, "Forbidden"),
    Category.NOT_FOUND: (404, "Not Found"),
    Category.INVALID_PARAMETERS: (400, "Bad Request"),
    Category.AUTHENTICATION: (401, "Unauthorized"),
    Category.QUOTA_EXHAUSTED: (402, "Payment Required"),
}


def _http_error(status: int, text: str, retry_after: float | None = None) -> Exception:
    from email.message import Message  # noqa: PLC0415  # costs milliseconds
    from io import BytesIO  # noqa: PLC0415
    from urllib.error import HTTPError  # noqa: PLC0415

    headers = Message()
    if retry_after is not None:
        headers["Retry-After"] = f"{retry_after:g}"
    return HTTPError("https://injected.example/", status, text, headers, BytesIO())


def _system_error(number: int) -> Exception:
    return OSError(number, os.strerror(number))  # Python creates the right subclass


def _error_of(module: str, name: str, *args: object) -> Exception:
    error: Exception = getattr(importlib.import_module(module), name)(*args)
    return error


_SAMPLES: dict[Category, Callable[[], Exception]] = {
    Category.NETWORK: lambda: _system_error(errno.ECONNRESET),
    Category.DATABASE_BUSY: lambda: _error_of("sqlite3", "OperationalError", "database is locked"),
    Category.SYSTEM: lambda: _system_error(errno.ENOSPC),
    Category.CONFIGURATION: lambda: ValueError("unknown url type: 'injected'"),
    Category.INTEGRITY: lambda: _error_of("sqlite3", "IntegrityError", "UNIQUE constraint failed: injected.id"),
    Category.DATA: lambda: _error_of("json", "JSONDecodeError", "Expecting value", "", 0),
    Category.UNKNOWN: lambda: RuntimeError("injected"),
    **{category: partial(_http_error, *answer) for category, answer in _STATUSES.items()},
}


Undo = Callable[[], object]
_INACTIVE_MARK = "_outlast_over"


class PatchTarget(NamedTuple):
    """A function, and how to replace it.

    Attributes:
        function: The function.
        put: Replaces the function, and returns a function that restores it.
    """

    function: Callable[..., Any]
    put: Callable[[Any], Undo]


def find_patch_target(place: str) -> PatchTarget:
    """Return the innermost function under the decorators of a function, because a retry decorator has to see the fault.

    Args:
        place: Dotted name of the function, such as ``shop.client.fetch`` or ``shop.client.Client.get``.

    Raises:
        ConfigError: If the function does not exist or cannot be replaced.
    """
    owner, name = _find_owner(place)
    found, kind = getattr(owner, name), None
    if isinstance(owner, type):
        found = inspect.getattr_static(owner, name)
        if isinstance(found, staticmethod | classmethod):
            found, kind = found.__func__, type(found)
    if isinstance(found, type) or not callable(found):
        what = "a class; name one of its methods" if isinstance(found, type) else f"a {type(found).__name__}"
        raise ConfigError(f"{place} is {what}: a fault needs a function")
    while getattr(found, _INACTIVE_MARK, None) is True:  # from an earlier test, restored by another patch
        found = found.__wrapped__
    inner = _innermost_target(found)
    if inner is not None:
        return inner
    if isinstance(owner, ModuleType):
        return PatchTarget(found, partial(_replace_everywhere, found, owner, name))
    return PatchTarget(found, partial(_set_attribute, owner, name, kind=kind))


def _find_owner(place: str) -> tuple[Any, str]:
    """Return the module, class or object that has the last name as an attribute."""
    names = place.split(".")
    for length in range(len(names) - 1, 0, -1):
        module = ".".join(names[:length])
        try:
            owner: Any = importlib.import_module(module)
        except ModuleNotFoundError as error:
            if error.name is not None and (module == error.name or module.startswith(f"{error.name}.")):
                continue  # this part is a class, or does not exist
            raise
        for done, name in enumerate(names[length:], length):
            if not hasattr(owner, name):
                raise ConfigError(
                    f"{'.'.join(names[:done])} has no attribute {name!r}, so there can be no fault at {place}"
                )
            if done < len(names) - 1:
                owner = getattr(owner, name)
        return owner, names[-1]
    raise ConfigError(f"the module {names[0]!r} does not exist, so there can be no fault at {place}")


def _innermost_target(found: Any) -> PatchTarget | None:
    """Return the innermost function that decorators hold; None if no decorator can be patched."""
    target: PatchTarget | None = None
    for _ in range(64):  # a limit, because the chain may be circular
        inner = getattr(found, "__wrapped__", None)
        if inner is None:
            return target
        cells = _cells_with(inner, found, set())
        names = [name for name, value in getattr(found, "__dict__", {}).items() if value is inner]
        if not cells and names == ["__wrapped__"]:
            return target  # written in C, or it holds its function in some other way
        target = PatchTarget(inner, partial(_replace_inside, found, inner, cells, names))
        found = inner
    return target


def _cells_with(inner: object, wrapper: object, seen: set[int]) -> list[CellType]:
    """Return the closure cells that hold the inner function: of the wrapper and of the functions it refers to."""
    cells: list[CellType] = []
    for cell in getattr(wrapper, "__closure__", None) or ():
        try:
            content = cell.cell_contents
        except ValueError:  # empty
            continue
        if content is inner:
            cells.append(cell)
        elif isinstance(content, FunctionType) and id(content) not in seen:
            seen.add(id(content))
            cells += _cells_with(inner, content, seen)
    return cells


def _replace_inside(wrapper: Any, inner: Any, cells: list[CellType], names: list[str], new: Any) -> Undo:
    def put(what: Any) -> None:
        for cell in cells:
            cell.cell_contents = what
        for name in names:
            setattr(wrapper, name, what)

    put(new)
    return lambda: put(inner)


def _replace_everywhere(found: Any, owner: ModuleType, name: str, new: Any) -> Undo:
    """Replace a function in its module, and in modules that have imported it by name."""
    with ExitStack() as undo:
        undo.callback(_replace_held, new, found)  # runs last: for modules imported meanwhile
        undo.callback(_set_attribute(owner, name, new))
        for module, key in _holders(found):
            undo.callback(_set_attribute(module, key, new))
        return undo.pop_all().close


def _replace_held(old: Any, new: Any) -> None:
    for module, key in _holders(old):
        setattr(module, key, new)


def _holders(function: Any) -> list[tuple[ModuleType, str]]:
    """Return the modules that contain a function, with its name there."""
    found: list[tuple[ModuleType, str]] = []
    for module in list(sys.modules.values()):
        try:
            items = list(vars(module).items())
        except TypeError:  # not a real module
            continue
        found += [(module, key) for key, value in items if value is function]
    return found


def _set_attribute(owner: Any, name: str, new: Any, *, kind: Any = None) -> Undo:
    own = getattr(owner, "__dict__", {})
    existed, previous = name in own, own.get(name)
    try:
        setattr(owner, name, kind(new) if kind else new)
    except (AttributeError, TypeError) as error:
        raise ConfigError(
            f"{name} of {owner!r} cannot be replaced ({error}); put the fault at a function of yours that calls it"
        ) from error
    return partial(setattr, owner, name, previous) if existed else partial(_delete_attribute, owner, name)


def _delete_attribute(owner: Any, name: str) -> None:
    if name in vars(owner):  # the test may have removed it
        delattr(owner, name)


if TYPE_CHECKING:
    from typing import ParamSpec, TypeVar

    P = ParamSpec("P")
    R = TypeVar("R")


def failing(
    function: "Callable[P, R]", errors: "Iterable[BaseException | type[BaseException] | None]"
) -> "Callable[P, R]":
    """Return the function with failures first: each call raises the next error; None calls the function.

    Args:
        function: Called once the errors are used up.
        errors: The errors, in order.
    """
    remaining = iter(errors)

    def raise_next() -> None:
        error = next(remaining, None)
        if error is not None:
            raise error

    return _with_hook(function, raise_next)


ErrorSpec = Category | str | BaseException | type[BaseException]


@dataclass(eq=False, repr=False)
class Fault:
    """One injected fault; `Faults.fail` describes the others.

    Attributes:
        place: The dotted name of a function, or the name of a point.
        calls: Number of calls that have reached it.
        failed: How many of them have failed.
    """

    place: str
    error: Callable[[], BaseException]
    _: KW_ONLY
    times: int | None
    after: int
    rate: float | None
    seed: int
    optional: bool
    calls: int = 0
    failed: int = 0

    def __post_init__(self) -> None:
        self._random = Random(f"{self.seed} {self.place}")  # noqa: S311  # the same calls fail in every run

    def __repr__(self) -> str:
        """Return the place, the error and the numbers as text."""
        return f"Fault({self.place!r}, {type(self.error()).__name__}, calls={self.calls}, failed={self.failed})"

    def strikes(self) -> bool:
        """Count a call, and return whether it fails."""
        self.calls += 1
        if self.calls <= self.after or (self.times is not None and self.failed >= self.times):
            return False
        if self.rate is not None and self._random.random() >= self.rate:
            return False
        self.failed += 1
        return True


class Faults:
    """The faults of one test, from `inject_faults` or the pytest fixture ``outlast_faults``."""

    def __init__(self) -> None:
        self._at: dict[str, list[Fault]] = {}
        self._passed: list[str] = []
        self._undo = ExitStack()
        self._listening = self._ended = False
        self._lock = threading.Lock()

    def __str__(self) -> str:
        """Return the faults, one per line."""
        return "\n".join(repr(fault) for fault in self.all)

    @property
    def all(self) -> list[Fault]:
        """The faults, by place, in the order of the calls of `fail`."""
        return [fault for faults in self._at.values() for fault in faults]

    def fail(  # noqa: PLR0913  # the options of a fault
        self,
        place: str,
        error: ErrorSpec,
        *,
        times: int | None = None,
        after: int = 0,
        rate: float | None = None,
        seed: int = 0,
        retry_after: float | None = None,
        optional: bool = False,
    ) -> Fault:
        """Make a place fail. Several faults at one place apply in the order of these calls.

        Args:
            place: The dotted name of a function, such as ``shop.client.fetch`` or ``shop.client.Client.get``, which
                then fails before its first line, under its decorators; or the name of an ``outlast.point``.
            error: A category, to raise a real error of that kind; or an exception, or its class.
            times: Number of calls that fail; by default all.
            after: Number of calls that do not fail first.
            rate: Share of the calls that fail, above 0 and up to 1.
            seed: Selects the calls that fail; the same seed selects the same calls.
            retry_after: Seconds that the server asks to wait, for a category that a server reports.
            optional: Whether the fault need not be reached; otherwise the test fails if it is not.

        Raises:
            ConfigError: If the function or category does not exist, a number is not valid, or the test has ended.
        """
        __tracebackhide__ = True  # a failing test shows its own line
        if self._ended:
            raise ConfigError(f"the faults have already ended; add the one at {place!r} while the test runs")
        _check_numbers(times, after, rate)
        make_error = _error_factory(error, retry_after)
        fault = Fault(place, make_error, times=times, after=after, rate=rate, seed=seed, optional=optional)
        if place not in self._at:
            self._install(place)
        self._at.setdefault(place, []).append(fault)
        return fault

    def check(self) -> None:
        """Check that every fault was reached.

        Raises:
            NotReachedError: If one was not; a fault that is not reached proves nothing.
        """
        for fault in self.all:
            if not fault.calls and not fault.optional:
                passed = "" if "." in fault.place else f"; {passed_points_text(self._passed)}"
                raise NotReachedError(
                    f"no call reached the fault at {fault.place!r}, so this test proves nothing about it{passed}"
                )

    def end(self) -> None:
        """Restore everything. Calls that still reach a fault do not fail any more."""
        self._ended = True
        self._undo.close()

    def _install(self, place: str) -> None:
        if "." in place:
            target = find_patch_target(place)
            wrapper = with_call_hook(target.function, lambda: self._raise_if_due(place))
            undo = target.put(wrapper)
            self._undo.callback(setattr, wrapper, _INACTIVE_MARK, True)  # noqa: FBT003  # other patches may still hold it
            self._undo.callback(undo)
        elif not self._listening:
            self._undo.callback(points.add_listener(self._pass))
            self._listening = True

    def _pass(self, name: str) -> None:
        if self._ended:  # a thread that is late
            return
        if "." in name:
            raise ConfigError(
                f"the point {name!r} has a dot in its name, like a function; call it {name.replace('.', '-')!r}"
            )
        with self._lock:
            self._passed.append(name)
        self._raise_if_due(name)

    def _raise_if_due(self, place: str) -> None:
        if self._ended:  # other patches and late imports may still hold the wrapper
            return
        with self._lock:
            fault = next((each for each in self._at.get(place, ()) if each.strikes()), None)
        if fault is not None:
            raise fault.error()


@contextmanager
def inject_faults() -> Iterator[Faults]:
    """Yield `Faults` for the block, and restore everything at its end.

    Raises:
        NotReachedError: If the block succeeds but a fault was not reached.
    """
    faults = Faults()
    try:
        yield faults
    finally:
        faults.end()
    faults.check()


def with_call_hook(function: Callable[..., Any], hook: Callable[[], object]) -> Callable[..., Any]:
    """Return a function that calls the hook first, with the name of the function."""
    return functools.wraps(function)(_with_hook(function, hook))


def _with_hook(function: Callable[..., Any], hook: Callable[[], object]) -> Callable[..., Any]:
    if is_coroutine_function(function):

        async def call_async(*args: Any, **kwargs: Any) -> Any:
            hook()
            return await function(*args, **kwargs)

        return call_async

    def call(*args: Any, **kwargs: Any) -> Any:
        hook()
        return function(*args, **kwargs)

    return call


def _error_factory(error: object, retry_after: float | None) -> Callable[[], BaseException]:
    """Return a function that creates the error; a new one for each call, if possible."""
    if isinstance(error, str):
        sample_error(error, retry_after=retry_after)  # raises now if it is not valid
        return lambda: sample_error(error, retry_after=retry_after)
    if retry_after is not None:
        raise ConfigError("retry_after needs a category; leave it out, and set the wait on your own exception")
    if isinstance(error, BaseException):
        return lambda: error.with_traceback(None)
    if isinstance(error, type) and issubclass(error, BaseException):
        return error
    raise ConfigError(f"{error!r} is not an error; give a category, an exception or an exception class")


def _check_numbers(times: object, after: object, rate: float | None) -> None:
    for what, number, least in (("times", times, 1), ("after", after, 0)):
        if number is not None:
            check_count(what, number, least)
    if rate is not None and not 0 < rate <= 1:
        raise ConfigError(f"rate is {rate!r}; give a share of the calls, above 0 and up to 1")
