"""What would have been done, written into the books of a store while a program is only observed."""

import queue
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from outlast.classify import classify
from outlast.observe.alert_delivery import log
from outlast.ports.rows import storable
from outlast.record.bus import subscribe
from outlast.record.events import Observed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from outlast.ports.triage import TriageStore

__all__ = ["recording"]

_MAX_WAITING = 10_000  # observations that wait to be written; what comes beyond them is dropped
_BATCH = 200
_MAX_TEXT = 4096  # characters of an error's text that are kept
_EVERY = 1.0  # seconds
_LEAVING = 10.0  # seconds that the end of the block waits for what is left

ObservationRow = tuple[str, str, str, str, str, str]


@contextmanager
def recording(store: "TriageStore") -> "Iterator[None]":
    """Write what the bus tells of `Observed` into a store, in batches, by a thread; at the end all that is left.

    A store that does not answer is told to the log, and the program goes on: what could not be written is dropped, and
    so is what is left ten seconds after the end of the block.

    Args:
        store: Where to.
    """
    waiting: queue.SimpleQueue[ObservationRow | None] = queue.SimpleQueue()
    ended = threading.Event()

    def take(event: Observed) -> None:
        if waiting.qsize() < _MAX_WAITING:
            waiting.put(_observation_row(event))

    thread = threading.Thread(
        target=_write_batches, args=(store, waiting, ended), name="outlast-recording", daemon=True
    )
    thread.start()
    end = subscribe(take, Observed)
    try:
        yield
    finally:
        end()
        ended.set()
        waiting.put(None)
        thread.join(_LEAVING)
        if thread.is_alive():
            _drop_waiting(waiting)


def _observation_row(event: Observed) -> ObservationRow:
    failure = event.failure
    text = storable(failure.message, _MAX_TEXT)
    name = storable(event.name)
    return name, event.decision, failure.category.value, failure.fingerprint, failure.exception_name, text


def _write_batches(
    store: "TriageStore", waiting: "queue.SimpleQueue[ObservationRow | None]", ended: threading.Event
) -> None:
    while True:
        rows = _take_batch(waiting)
        if rows:
            try:
                store.record_observed(rows)
            except Exception as error:  # noqa: BLE001  # whatever it is, the program that is observed goes on
                failure = classify(error)
                log.error("%d observations could not be written (%s): %s", len(rows), failure.category, failure.message)
        if ended.is_set() and waiting.empty():
            return
        if len(rows) < _BATCH:
            ended.wait(_EVERY)


def _drop_waiting(waiting: "queue.SimpleQueue[ObservationRow | None]") -> None:
    """Take away what still waits, so that the thread ends with the batch it has in hand."""
    dropped = 0
    try:
        while True:
            dropped += waiting.get_nowait() is not None
    except queue.Empty:
        waiting.put(None)  # the thread may be about to wait for one
    log.error(
        "%d observations were dropped, and up to %d more may not be written: the store did not take them within %g s",
        dropped, _BATCH, _LEAVING,
    )  # fmt: skip


def _take_batch(waiting: "queue.SimpleQueue[ObservationRow | None]") -> list[ObservationRow]:
    rows: list[ObservationRow] = []
    try:
        row = waiting.get()
        while row is not None:
            rows.append(row)
            if len(rows) == _BATCH:  # what comes next stays where it is
                break
            row = waiting.get_nowait()
    except queue.Empty:
        pass
    return rows
