"""The spool: outcomes that a worker could not store before it ended, kept in files until the next start."""

import json
import os
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any

from outlast.classify import classify
from outlast.errors import LeaseLostError
from outlast.ports.rows import Kind, Note, Reason, SettleAndClaim, Settlement
from outlast.ports.store import Store
from outlast.private_files import make_folder, private_opener
from outlast.queue.logs import log


class Spool:
    """A folder of outcomes: ids, epochs and failures, never a payload. Only their owner can read the files.

    Args:
        folder: The folder; created when it is needed.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, done: list[tuple[int, int]], settlements: list[Settlement]) -> bool:
        """Write outcomes to a new file. Returns whether there were any and they were written."""
        lines = [_to_line(Settlement(number, epoch, Kind.DONE)) for number, epoch in done]
        lines += [_to_line(each) for each in settlements if each.kind is not Kind.RELEASE]
        if not lines:
            return False
        try:
            make_folder(self._folder)
            path = self._folder / f"{uuid.uuid4().hex}.jsonl"
            part = path.with_suffix(".part")  # else a worker that starts now could take a file that is half written
            with open(part, "x", encoding="utf-8", opener=private_opener) as file:
                file.write("\n".join(lines) + "\n")
                file.flush()
                os.fsync(file.fileno())
            part.rename(path)
        except OSError as error:
            log.error("could not store %d outcomes anywhere; their tasks will run again: %s", len(lines), error)
            return False
        log.warning("could not store %d outcomes; they are kept in %s until the next start", len(lines), path)
        return True

    def replay(self, store: Store, worker_id: str) -> int:
        """Apply all outcomes whose tasks no other worker has. Returns their number."""
        applied = 0
        for path in sorted(self._folder.glob("*.jsonl")) if self._folder.is_dir() else ():
            try:
                settlements, unread = _read_file(path)
            except FileNotFoundError:  # another worker that started at the same time has applied it
                continue
            except OSError as error:  # a file must not prevent the start of workers
                log.error("could not read %s: %s", path, error)
                continue
            try:
                refused = store.settle_and_claim(SettleAndClaim(worker_id, [], settlements, [])).refused
            except LeaseLostError:
                raise
            except Exception as error:  # noqa: BLE001  # a file must not prevent the start of workers
                failure = classify(error)
                log.error("could not apply %s (%s): %s", path, failure.category, failure.message)
                if not failure.retryable:
                    path.rename(path.with_suffix(".refused"))
                continue
            applied += len(settlements) - len(refused)
            log.warning("applied %d outcomes from %s, %d were too late", len(settlements), path, len(refused))
            if unread:
                log.error("%s is kept with the suffix .refused; lines that are not valid: %d", path, unread)
                with suppress(FileNotFoundError):  # another worker that started at the same time has done so
                    path.rename(path.with_suffix(".refused"))
            else:
                path.unlink(missing_ok=True)
        return applied


def _to_line(settlement: Settlement) -> str:
    note = settlement.note
    return json.dumps(settlement._asdict() | {"note": None if note is None else note._asdict()})


def _read_file(path: Path) -> tuple[list[Settlement], int]:
    """Return the settlements of a file, and the number of lines that cannot be read; those are logged."""
    settlements, unread = [], 0
    for line in path.read_text("utf-8", errors="replace").splitlines():
        try:
            data = _known_fields(Settlement, json.loads(line))
            note, reason = data["note"], data["reason"]
            parsed = {
                "kind": Kind(data["kind"]),
                "note": None if note is None else Note(**_known_fields(Note, note)),
                "reason": None if reason is None else Reason(reason),
            }
            settlements.append(Settlement(**data | parsed))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            unread += 1
            log.error("a line of %s is not valid: %s", path, error)
    return settlements, unread


def _known_fields(row_type: type[Settlement | Note], data: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that this version knows: an older one writes fewer, a newer one may write more."""
    return {name: value for name, value in data.items() if name in row_type._fields}
