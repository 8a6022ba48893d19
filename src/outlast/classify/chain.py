"""The errors behind an error: its causes, what it interrupted, and the leaves of a group."""

from outlast.classify.peek import CHAIN_LIMIT, peek
from outlast.failure import Category

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["causes_of", "context_of", "leaves_of", "severity"]

LEAF_LIMIT = 2048
"""How many leaves of an exception group are looked at."""

# What a program should hear about first when several things went wrong together.
_WORST_FIRST = (
    Category.CONFIGURATION,
    Category.AUTHENTICATION,
    Category.INTEGRITY,
    Category.ACCESS_DENIED,
    Category.QUOTA_EXHAUSTED,
    Category.UNKNOWN,
    Category.INVALID_PARAMETERS,
    Category.DATA,
    Category.NOT_FOUND,
    Category.SYSTEM,
    Category.RATE_LIMIT,
    Category.DATABASE_BUSY,
    Category.API_TEMPORARY,
    Category.NETWORK,
)
_RANK = {category: rank for rank, category in enumerate(_WORST_FIRST)}


def causes_of(error: BaseException) -> "Iterator[BaseException]":
    """Yield the `__cause__` chain, nearest first; a cycle ends it."""
    seen = {id(error)}
    link = peek(error, "__cause__")
    while isinstance(link, BaseException) and id(link) not in seen and len(seen) < CHAIN_LIMIT:
        yield link
        seen.add(id(link))
        link = peek(link, "__cause__")


def context_of(error: BaseException) -> "Iterator[BaseException]":
    """Yield what the error and its causes interrupted, unless the user said that it does not matter."""
    seen = {id(error), *(id(cause) for cause in causes_of(error))}
    for start in (error, *causes_of(error)):
        link: object = start
        while len(seen) < CHAIN_LIMIT:
            link = None if peek(link, "__suppress_context__") else peek(link, "__context__")
            if not isinstance(link, BaseException) or id(link) in seen:
                break
            yield link
            seen.add(id(link))


def leaves_of(group: BaseException) -> "list[BaseException]":
    """Return the errors in a group and the groups within it, each once, as many as the limit allows."""
    leaves: list[BaseException] = []
    waiting: list[object] = [group]
    seen: set[int] = set()
    while waiting and len(seen) < LEAF_LIMIT:
        each = waiting.pop()
        if id(each) in seen or not isinstance(each, BaseException):
            continue
        seen.add(id(each))
        inner = peek(each, "exceptions") if isinstance(each, BaseExceptionGroup) else None
        if isinstance(inner, tuple):
            waiting.extend(inner[:LEAF_LIMIT])
        else:
            leaves.append(each)
    return leaves


def severity(category: Category, retryable: bool) -> tuple[bool, int]:  # noqa: FBT001  # a fact, not an option
    """Return a key that sorts the worst first: what is permanent before all that may heal."""
    return retryable, _RANK[category]
