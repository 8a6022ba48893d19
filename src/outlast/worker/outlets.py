"""What a worker hands its results and its counts to: objects of the program's own."""

from collections.abc import Callable
from typing import Any

from outlast.worker import logs
from outlast.worker.task import WorkerTask

__all__ = ["counter_of", "saver_of"]


def saver_of(results_db: Any) -> Callable[[WorkerTask, Any], object] | None:
    """Return what is called with a task and its result: its `save` or `report`, or the thing itself.

    A connection is none of these; what is done with it is written in the worker's own `report_result`.
    """
    return _called(results_db, ("save", "report"))


def counter_of(metrics: Any) -> Callable[[str], None]:
    """Return what counts by name: `increment`, `incr` or the thing itself. Whatever it raises is only logged."""
    count = _called(metrics, ("increment", "incr"))

    def safely(name: str) -> None:
        if count is None:
            return
        try:
            count(name)
        except Exception as error:  # noqa: BLE001  # counting is not worth a task
            logs.broken("metrics", error)

    return safely


def _called(thing: Any, names: tuple[str, ...]) -> Callable[..., object] | None:
    for name in names:
        method = getattr(thing, name, None)
        if callable(method):
            found: Callable[..., object] = method
            return found
    if callable(thing) and not hasattr(thing, "cursor"):  # a sqlite3.Connection is callable, to no use for us
        return thing  # type: ignore[no-any-return]  # a thing of the program's own
    return None
