"""Settlements that could not be written before a worker had to end: kept in a file and applied at the next start."""

import json
import os
import uuid
from pathlib import Path
from typing import Any

from outlast.classify import classify
from outlast.errors import LeaseLostError
from outlast.ports.rows import Kind, Note, Reason, Settlement, Turn
from outlast.ports.store import Store
from outlast.queue.logs import log

__all__ = ["Spool"]


class Spool:
    """A folder of such files. They hold ids, epochs and failures, never a payload, and only their owner may read them.

    Args:
        folder: Where they are.
    """

    def __init__(self, folder: Path) -> None:
        """Look at nothing yet."""
        self._folder = folder

    def keep(self, done: list[tuple[int, int]], settlements: list[Settlement]) -> bool:
        """Write down what the store could not take; tell whether anything was."""
        lines = [_line(Settlement(number, epoch, Kind.DONE)) for number, epoch in done]
        lines += [_line(each) for each in settlements if each.kind is not Kind.RELEASE]
        if not lines:
            return False
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            path = self._folder / f"{uuid.uuid4().hex}.jsonl"
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
                file.write("\n".join(lines) + "\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            log.error("%d outcomes could not be written anywhere, those tasks will run again: %s", len(lines), error)
            return False
        log.warning("%d outcomes could not be stored and wait in %s for the next start", len(lines), path)
        return True

    def replay(self, store: Store, worker_id: str) -> int:
        """Apply what is there, where the task has not been given to somebody else; return how many were."""
        applied = 0
        for path in sorted(self._folder.glob("*.jsonl")) if self._folder.is_dir() else ():
            try:
                settlements = _read(path)
            except FileNotFoundError:  # another worker, started at the same time, was quicker
                continue
            try:
                refused = store.turn(Turn(worker_id, [], settlements, [])).refused
            except LeaseLostError:
                raise
            except Exception as error:  # noqa: BLE001  # a file must not keep workers from starting
                failure = classify(error)
                log.error("%s cannot be applied (%s): %s", path, failure.category, failure.message)
                if not failure.retryable:
                    path.rename(path.with_suffix(".refused"))
                continue
            path.unlink(missing_ok=True)
            applied += len(settlements) - len(refused)
            log.warning("%d outcomes from %s were applied, %d came too late", len(settlements), path, len(refused))
        return applied


def _line(settlement: Settlement) -> str:
    note = settlement.note
    return json.dumps(
        {
            "task_id": settlement.task_id,
            "epoch": settlement.epoch,
            "kind": settlement.kind,
            "delay": settlement.delay,
            "reason": settlement.reason,
            "result": settlement.result,
            "keep": settlement.keep,
            "suspect": settlement.suspect,
            "note": None if note is None else note._asdict(),
        }
    )


def _read(path: Path) -> list[Settlement]:
    """Read a file; a line that was cut off is left out."""
    settlements = []
    for line in path.read_text("utf-8", errors="replace").splitlines():
        try:
            data: dict[str, Any] = json.loads(line)
            settlements.append(
                Settlement(
                    int(data["task_id"]),
                    int(data["epoch"]),
                    Kind(data["kind"]),
                    float(data["delay"]),
                    Note(**data["note"]) if data["note"] else None,
                    Reason(data["reason"]) if data["reason"] else None,
                    data.get("result"),
                    float(data.get("keep", 0.0)),
                    bool(data.get("suspect")),
                )
            )
        except (ValueError, TypeError, KeyError) as error:
            log.error("a line of %s cannot be read: %s", path, error)
    return settlements
