"""Observe mode: records in a store what Outlast would have done about failures."""

import logging
import queue
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from outlast.classify import classify
from outlast.ports.rows import storable
from outlast.record.bus import subscribe
from outlast.record.events import Observed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from outlast.ports.triage import TriageStore

log = logging.getLogger("outlast.notify")
_MAX_WAITING = 10_000  # observations that wait to be written; further ones are dropped
_BATCH = 200  # observations per write
_MAX_TEXT = 4096  # characters of an error message that are stored
_EVERY = 1.0  # seconds between two writes
_LEAVING = 10.0  # seconds that the end of the block waits for the last writes

ObservationRow = tuple[str, str, str, str, str, str]


@contextmanager
def recording(store: "TriageStore") -> "Iterator[None]":
    """Write `Observed` events to a store, in batches from a background thread.

    If the store fails, the error is logged, the batch is dropped and the program continues. The end of the block waits
    up to 10 seconds for the last writes; what is left then is dropped.

    Args:
        store: The store to write to.
    """
    waiting: queue.SimpleQueue[ObservationRow | None] = queue.SimpleQueue()
    ended = threading.Event()

    def enqueue(event: Observed) -> None:
        if waiting.qsize() < _MAX_WAITING:
            waiting.put(_observation_row(event))

    thread = threading.Thread(
        target=_write_batches, args=(store, waiting, ended), name="outlast-recording", daemon=True
    )
    thread.start()
    unsubscribe = subscribe(enqueue, Observed)
    try:
        yield
    finally:
        unsubscribe()
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
            except Exception as error:  # noqa: BLE001  # the observed program must go on
                failure = classify(error)
                text = "could not write %d observations (%s): %s"
                log.error(text, len(rows), failure.category, failure.message)  # noqa: TRY400  # a traceback may contain secrets
        if ended.is_set() and waiting.empty():
            return
        if len(rows) < _BATCH:
            ended.wait(_EVERY)


def _drop_waiting(waiting: "queue.SimpleQueue[ObservationRow | None]") -> None:
    """Drop what still waits, so that the thread ends after its current batch."""
    dropped = 0
    try:
        while True:
            dropped += waiting.get_nowait() is not None
    except queue.Empty:
        waiting.put(None)  # wake the thread if it waits for the next observation
    log.error(
        "dropped %d observations, and up to %d more may be lost: the store did not accept them within %g s",
        dropped, _BATCH, _LEAVING,
    )  # fmt: skip


def _take_batch(waiting: "queue.SimpleQueue[ObservationRow | None]") -> list[ObservationRow]:
    rows: list[ObservationRow] = []
    try:
        row = waiting.get()
        while row is not None:
            rows.append(row)
            if len(rows) == _BATCH:  # the rest stays in the queue
                break
            row = waiting.get_nowait()
    except queue.Empty:
        pass
    return rows
