"""The rest of a run: its targets that were no success, read from the ledger page by page."""

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from outlast.errors import ConfigError
from outlast.ports.job_rows import TargetRow, TargetStatus
from outlast.ports.jobs import Jobs

__all__ = ["Rest"]

_PAGE = 1000
_LEFT = (TargetStatus.FAILED, TargetStatus.DEFERRED)


class Rest:
    """Targets of a run that failed or were put off. However many they are, one page of them is in memory.

    Args:
        store: Where the run is kept.
        run_id: Which run.
        size: How many there are.
    """

    def __init__(self, store: Jobs, run_id: str, size: int) -> None:
        """Read nothing yet."""
        self._store, self._run_id, self._size = store, run_id, size

    def __len__(self) -> int:
        """Return how many there are."""
        return self._size

    def __iter__(self) -> Iterator[Any]:
        """Read them."""
        return (json.loads(row.target or "null") for row in _rows(self._store, self._run_id))

    @classmethod
    def of(
        cls, store: Jobs, run_id: str, key: Callable[[Any], str], own: Callable[[], Iterable[Any] | None]
    ) -> Iterable[Any]:
        """Return the rest of a run: as the ledger has it, else what is found by key among the job's targets.

        Args:
            store: Where the run is kept.
            run_id: Which run.
            key: Tells one target from another.
            own: Returns the targets of the job, if they can be had.

        Raises:
            ConfigError: If neither has them.
        """
        size, complete = 0, True
        for row in _rows(store, run_id):
            size += 1
            complete = complete and row.target is not None
        if complete:
            return cls(store, run_id, size)
        given = own()
        if given is None:
            message = f"the targets of run {run_id} cannot be had from the ledger; give them, they are looked up by key"
            raise ConfigError(message)
        wanted = {row.source_id for row in _rows(store, run_id)}
        return (target for target in given if str(key(target)) in wanted)


def _rows(store: Jobs, run_id: str) -> Iterator[TargetRow]:
    after = None
    while True:
        page = store.targets(run_id, statuses=_LEFT, after=after, limit=_PAGE)
        yield from page
        if len(page) < _PAGE:
            return
        after = page[-1].source_id
