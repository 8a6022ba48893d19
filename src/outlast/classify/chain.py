"""The errors around an error: its causes, what it interrupted, and the leaves of a group."""

from outlast.classify.safe_access import CHAIN_LIMIT, safe_getattr

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterator

LEAF_LIMIT = 2048
"""Maximum number of leaves of an exception group to read."""


def causes_of(error: BaseException) -> "Iterator[BaseException]":
    """Yield the `__cause__` chain, nearest first; stops at a cycle."""
    seen = {id(error)}
    link = safe_getattr(error, "__cause__")
    while isinstance(link, BaseException) and id(link) not in seen and len(seen) < CHAIN_LIMIT:
        yield link
        seen.add(id(link))
        link = safe_getattr(link, "__cause__")


def context_of(error: BaseException) -> "Iterator[BaseException]":
    """Yield the errors that the error and its causes interrupted, unless the context is suppressed."""
    seen = {id(error), *(id(cause) for cause in causes_of(error))}
    for start in (error, *causes_of(error)):
        link: object = start
        while len(seen) < CHAIN_LIMIT:
            link = None if safe_getattr(link, "__suppress_context__") else safe_getattr(link, "__context__")
            if not isinstance(link, BaseException) or id(link) in seen:
                break
            yield link
            seen.add(id(link))


def links_of(error: BaseException) -> "tuple[BaseException, ...]":
    """Return an error, its causes and what they interrupted."""
    return (error, *causes_of(error), *context_of(error))


def leaves_of(group: BaseException) -> "list[BaseException]":
    """Return the errors in a group and its subgroups, each once, up to the limit."""
    leaves: list[BaseException] = []
    waiting: list[object] = [group]
    seen: set[int] = set()
    while waiting and len(seen) < LEAF_LIMIT:
        each = waiting.pop()
        if id(each) in seen or not isinstance(each, BaseException):
            continue
        seen.add(id(each))
        inner = safe_getattr(each, "exceptions") if isinstance(each, BaseExceptionGroup) else None
        if isinstance(inner, tuple):
            waiting.extend(inner[:LEAF_LIMIT])
        else:
            leaves.append(each)
    return leaves
