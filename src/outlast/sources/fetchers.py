"""Who fetches: the ready-made ones by name, or a function of the user's in whatever form it has."""

import asyncio
import contextlib
import contextvars
import inspect
import threading
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from outlast.errors import ConfigError
from outlast.ports.source_rows import Source
from outlast.run.retry import is_coroutine_function
from outlast.sources.fetched import Fetcher

__all__ = ["fetcher", "in_own_thread"]

_PACKAGES = {"feed": "feedparser", "page": "selectolax"}


def fetcher(given: "str | Callable[..., Any] | None", usual: str) -> Fetcher:
    """Return what fetches sources.

    Args:
        given: ``feed``, ``page``, or a function of a source, or of a source and the monitor's client; None for what
            suits the profile, and a page where a source has a selector.
        usual: ``feed`` or ``page``, as the profile says.

    Raises:
        ConfigError: If it is none of them, or needs a package that is not installed.
    """
    if given is None:
        _needed(usual)
        return _suitable(usual)
    if given in ("feed", "page"):
        _needed(str(given))
        return _named(str(given))
    if isinstance(given, str) or not callable(given):
        message = f"fetch is {given!r}; choose feed or page, or give a function of a source"
        raise ConfigError(message)
    return _adapted(given)


def _needed(kind: str) -> None:
    """See now, not at the first poll, that what a fetcher needs is installed."""
    if find_spec(_PACKAGES[kind]) is None:
        message = f'fetching a {kind} needs {_PACKAGES[kind]}; run: pip install ".[feeds]" in a clone of Outlast'
        raise ConfigError(message)


def _named(kind: str) -> Fetcher:
    if kind == "feed":
        from outlast.sources.feed import fetch_feed  # noqa: PLC0415  # needs an extra

        return fetch_feed
    from outlast.sources.page import fetch_page  # noqa: PLC0415  # needs an extra

    return fetch_page


def _suitable(usual: str) -> Fetcher:
    """Return a fetcher that looks at each source: one with a selector is a page, whatever the others are."""
    plain = _named(usual)

    async def fetch(source: Source, client: Any) -> Any:
        chosen = plain if source.selector is None else _named("page")
        return await chosen(source, client)

    return fetch


def _adapted(function: Callable[..., Any]) -> Fetcher:
    try:
        wanted = [
            each
            for each in inspect.signature(function).parameters.values()
            if each.kind in {each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD} and each.default is each.empty
        ]
    except (TypeError, ValueError):  # a builtin that does not tell
        wanted = []
    alone = len(wanted) == 1

    async def fetch(source: Source, client: Any) -> Any:
        args = (source,) if alone else (source, client)
        if is_coroutine_function(function):
            return await function(*args)
        return await in_own_thread(function, *args)

    fetch.needs_client = not alone  # type: ignore[attr-defined]  # the monitor opens none for nothing
    return fetch


async def in_own_thread(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function of the user's in a thread of its own.

    One that hangs takes no thread that others wait for, and does not keep the program from ending.

    Raises:
        Exception: What the function raises; RuntimeError for what would end the event loop, such as SystemExit.
    """
    loop, context = asyncio.get_running_loop(), contextvars.copy_context()
    done: asyncio.Future[Any] = loop.create_future()

    def settle(result: Any, error: Exception | None) -> None:
        if done.done():  # nobody waits any more
            return
        if error is None:
            done.set_result(result)
        else:
            done.set_exception(error)

    def work() -> None:
        result: Any = None
        error: Exception | None = None
        try:
            result = context.run(function, *args)
        except BaseException as raised:  # noqa: BLE001  # raised where it is awaited
            error = raised if isinstance(raised, Exception) else None
            if error is None or isinstance(raised, StopIteration):  # a future takes no StopIteration
                error = RuntimeError(f"{type(raised).__name__} was raised")
                error.__cause__ = raised
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=work, name="outlast-fetch", daemon=True).start()
    return await done
