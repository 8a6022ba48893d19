"""Settling one by one, when something in a batch is what the store refuses: the others must not wait for it."""

from holdfast.classify import classify
from holdfast.errors import LeaseLostError
from holdfast.ports.rows import Kind, Settlement, Turn
from holdfast.ports.store import Store
from holdfast.queue.logs import log

__all__ = ["Answer", "one_by_one"]

Answer = tuple[Kind, int, list[int] | None]
"""What was settled, of which task, and what the store said: who else has it, or None if it would not take it at all."""


def one_by_one(store: Store, turn: Turn) -> list[Answer]:
    """Settle each task of a turn by itself; where the store refuses a settlement, once more without its texts."""
    answers: list[Answer] = []
    for number, epoch in turn.done:
        answers.append((Kind.DONE, number, _settled(store, Turn(turn.worker_id, [(number, epoch)], [], []))))
    for settlement in turn.settlements:
        answer = _settled(store, Turn(turn.worker_id, [], [settlement], []))
        if answer is None:
            answer = _settled(store, Turn(turn.worker_id, [], [_plain(settlement)], []))
        answers.append((settlement.kind, settlement.task_id, answer))
    return answers


def _settled(store: Store, turn: Turn) -> list[int] | None:
    try:
        return store.turn(turn).refused
    except LeaseLostError:
        raise
    except Exception as error:  # noqa: BLE001  # the others matter as well
        log.error("the store refused a settlement: %s", classify(error).message)
        return None


def _plain(settlement: Settlement) -> Settlement:
    """Return a settlement without the texts of its error: one of them is what the store refuses."""
    if settlement.note is None:
        return settlement
    note = settlement.note._replace(
        error_type=settlement.note.error_type.encode("ascii", "replace").decode("ascii"),
        error_message="the text of this error was refused by the store",
        failure="{}",
        traceback="",
    )
    return settlement._replace(note=note)
