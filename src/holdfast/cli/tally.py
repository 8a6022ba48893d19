"""Counts what a worker has settled, as its turns pass by, for the line that it says at the end."""

from collections import Counter
from typing import TYPE_CHECKING, Any

from holdfast.ports.rows import Kind, Turn, Turned

if TYPE_CHECKING:
    from holdfast.ports.store import Store

__all__ = ["Tally"]

_SAID = {Kind.DONE: "done", Kind.RETRY: "to try again", Kind.DEFER: "put off", Kind.FAIL: "dead letters"}


class Tally:
    """A store that counts outcomes and is otherwise the store itself.

    Args:
        store: The store.

    Attributes:
        outcomes: How many of each kind were written.
    """

    def __init__(self, store: "Store") -> None:
        """Begin at nothing."""
        self._store = store
        self.outcomes: Counter[Kind] = Counter()

    def __getattr__(self, name: str) -> Any:
        """Pass on everything else."""
        return getattr(self._store, name)

    def turn(self, turn: Turn) -> Turned:
        """Count what a turn has written: not what another worker has by now."""
        turned = self._store.turn(turn)
        refused = set(turned.refused)
        self.outcomes[Kind.DONE] += sum(number not in refused for number, _ in turn.done)
        self.outcomes.update(each.kind for each in turn.settlements if each.task_id not in refused)
        return turned

    def __str__(self) -> str:
        """Say how many of what."""
        parts = [f"{word} {self.outcomes[kind]}" for kind, word in _SAID.items() if self.outcomes[kind]]
        return ", ".join(parts) or "no task came to an end"
