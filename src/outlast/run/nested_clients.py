"""Warns once per library about clients that retry by themselves within our attempts.

Two layers of retries multiply, and the waits of the inner layer are not visible.
"""

from outlast.classify.safe_access import header_of, safe_getattr

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def _botocore_retries(error: Exception) -> int:
    answer = safe_getattr(error, "response")
    known = answer.get("ResponseMetadata") if isinstance(answer, dict) else None
    made = known.get("RetryAttempts") if isinstance(known, dict) else None
    return made if isinstance(made, int) else 0


def _llm_retries(error: Exception) -> int:
    counted = header_of(safe_getattr(error, "request", "headers"), "x-stainless-retry-count")
    return int(counted) if counted is not None and counted.isdecimal() else 0


def _urllib3_retries(error: Exception) -> int:
    history = safe_getattr(error, "response", "raw", "retries", "history") or safe_getattr(
        error, "response", "retries", "history"
    )
    return sum(safe_getattr(each, "redirect_location") is None for each in history) if isinstance(history, tuple) else 0


CLIENTS_WITH_RETRIES: "dict[str, tuple[Callable[[Exception], int], str]]" = {
    "botocore": (_botocore_retries, "Config(retries={'total_max_attempts': 1})"),
    "openai": (_llm_retries, "max_retries=0"),
    "anthropic": (_llm_retries, "max_retries=0"),
    "requests": (_urllib3_retries, "HTTPAdapter(max_retries=0)"),
    "urllib3": (_urllib3_retries, "retries=False"),
}
"""By the package of an error: what tells how often its client has tried again, and what switches that off."""
_warned: set[str] = set()


def client_retries(error: Exception) -> int:
    """Return how often the client itself has tried again before it raised an error; 0 where that cannot be seen."""
    known = CLIENTS_WITH_RETRIES.get(type(error).__module__.partition(".")[0])
    return 0 if known is None else known[0](error)


def warn_of_client_retries(name: str, error: Exception) -> None:
    """Warn, once per library, that a client makes its own retries inside a call of that name."""
    library = type(error).__module__.partition(".")[0]
    if library in _warned or not (made := client_retries(error)):
        return
    _warned.add(library)
    import logging  # noqa: PLC0415  # only a client that retries needs it

    try:
        logging.getLogger("outlast.retry").warning(
            "%s: %s retried %s by itself within each attempt; switch off one of the two retries (%s)",
            name, library, "once" if made == 1 else f"{made} times", CLIENTS_WITH_RETRIES[library][1],
        )  # fmt: skip
    except Exception:  # noqa: BLE001  # a handler that raises must not replace the error at hand
        return
