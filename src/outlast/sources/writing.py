"""How the results of polls are written: together, and one by one where the store refuses one of them."""

from typing import TYPE_CHECKING, Any

from outlast.classify import classify
from outlast.decide.health import SourceRules
from outlast.errors import OutlastError
from outlast.ports.source_rows import Transition
from outlast.ports.sources import Change, Sources
from outlast.sources import outcomes
from outlast.sources.telling import log, tell

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

__all__ = ["AFTER_A_MISTAKE", "write"]

AFTER_A_MISTAKE = 60.0
"""Seconds to put a source off when what went wrong is no fault of its own."""

_Results = dict[int, tuple[int | None, Change]]


async def write(ask: "Callable[..., Awaitable[Any]]", store: Sources, rules: SourceRules, results: _Results) -> bool:
    """Write results and tell of what they change; what is written is taken out of them.

    Args:
        ask: Calls a function that blocks.
        store: Where they go.
        rules: Of the profile.
        results: What the polls gave.

    Returns:
        Whether a state has changed.

    Raises:
        Exception: If the store is down, or refuses even that a source is put off.
    """
    if not results:
        return False
    answer: list[Transition] | Exception = await ask(_written, store, results)
    if not isinstance(answer, Exception):
        results.clear()
        tell(answer)
        return bool(answer)
    changed = False
    for number in sorted(results):
        epoch, change = results[number]
        answer = await ask(_written, store, {number: (epoch, change)})
        if isinstance(answer, Exception):
            refusal = classify(answer)
            put_off = outcomes.deferred(rules, AFTER_A_MISTAKE, refusal, 0)
            answer = await ask(_written, store, {number: (epoch, put_off)})
            if isinstance(answer, Exception):
                raise answer  # the store takes nothing at all: it is not the result
            log.error("the store refuses what the poll of source %d gave; it is put off: %s", number, refusal)
        del results[number]
        tell(answer)
        changed = changed or bool(answer)
    return changed


def _written(store: Sources, results: _Results) -> list[Transition] | Exception:
    """Return the transitions, or why the store refuses, where no repetition would help."""
    try:
        return store.change_sources(results)
    except OutlastError:
        raise
    except Exception as error:
        if classify(error).retryable:
            raise
        return error
