"""Settling one by one, when something in a batch is what the store refuses: the others must not wait for it."""

from collections import Counter

from outlast.classify import classify
from outlast.errors import LeaseLostError
from outlast.ports.rows import Kind, Note, Reason, Settlement, Turn
from outlast.ports.store import Store
from outlast.queue.logs import log

__all__ = ["Answer", "one_by_one"]

_PATIENCE = 3  # turns
Answer = tuple[Kind, int, list[int] | None]
"""What was settled, of which task, and what the store said: who else has it, or None if it would not take it at all."""


def one_by_one(store: Store, turn: Turn, refusals: Counter[int]) -> list[Answer]:
    """Settle each task of a turn by itself.

    Where the store refuses a settlement, it is tried once more without its texts; what was refused in all its forms for
    some turns ends the task in the plainest way there is.

    Args:
        store: Where.
        turn: What.
        refusals: In how many turns the settlement of a task was refused; kept up to date.
    """
    answers: list[Answer] = []
    answer: list[int] | None = None
    for number, epoch in turn.done:
        answers.append((Kind.DONE, number, _settled(store, Turn(turn.worker_id, [(number, epoch)], [], []))))
    for settlement in turn.settlements:
        number = settlement.task_id
        forms = [settlement, _plain(settlement)] if refusals[number] < _PATIENCE else [_end(settlement)]
        for form in forms:
            answer = _settled(store, Turn(turn.worker_id, [], [form], []))
            if answer is not None:
                break
        else:
            refusals[number] += 1
        answers.append((settlement.kind, number, answer))
    return answers


def _end(settlement: Settlement) -> Settlement:
    """Return the settlement that remains when the store takes no other."""
    if settlement.kind is Kind.DONE:
        return settlement._replace(result=None)
    note = _plain(settlement).note or Note("Refused", "its outcome was refused by the store", "unknown", "", "{}")
    return Settlement(settlement.task_id, settlement.epoch, Kind.FAIL, note=note, reason=Reason.EXHAUSTED)


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
