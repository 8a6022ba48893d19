"""Moves a SQLite file to PostgreSQL. After any interruption, the same call continues the move.

1. The target must be empty, and nobody may use the file.
2. The file is frozen, so that its content no longer changes.
3. The target is guarded against other writers and issues a receipt, which the file stores. From here on the file can
   only go to this target.
4. Tables are copied in batches. Each batch is written together with the progress.
5. The rows and counters of both sides are compared.
6. The file is marked as moved, then the guard of the target is removed.
"""

import socket
import time
from collections.abc import Callable
from contextlib import closing, suppress
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from outlast.errors import ConfigError, SchemaError
from outlast.stores.move.plan import CANCEL_HINT, MoveError
from outlast.stores.move.row_copy import MoveProgress, copy_tables
from outlast.stores.move.source import SourceFile
from outlast.stores.move.target import ReceivedMove, TargetDatabase
from outlast.stores.postgres.driver import psycopg
from outlast.stores.sqlite.move_mark import MoveMark
from outlast.stores.sqlite.schema import LATEST
from outlast.stores.urls import open_store, spool_folder

BATCH_ROWS = 10_000
"""Rows per batch."""


class MoveNames(NamedTuple):
    """Display names of both sides, without passwords."""

    source: str
    target: str

    @property
    def origin(self) -> str:
        """Name of the source for the target, with the host because a path means nothing on another machine."""
        return f"{self.source} on {socket.gethostname()}"


class MoveResult(NamedTuple):
    """Result of a move.

    Attributes:
        tables: Rows by table.
        strangers: Tables of other programs in the file, which are not moved.
        seconds: Duration in seconds.
        already: Whether the move had ended before this call.
        resumed: Whether an earlier call had started it.
        rescued: Tasks taken from dead workers.
        copied: Rows that this call copied.
    """

    tables: dict[str, int]
    strangers: list[str]
    seconds: float
    already: bool = False
    resumed: bool = False
    rescued: int = 0
    copied: int = 0


def preview(source: SourceFile, target: TargetDatabase, names: MoveNames) -> dict[str, int]:
    """Return the number of rows that would be moved, by table; nothing is changed.

    Raises:
        MoveError: If they cannot be moved now.
    """
    mark = source.mark()
    received = _matching_move(mark, target.received_move(), names)
    if mark is None:
        source.check_quiet()
        if source.version < LATEST:
            raise MoveError(
                f"the tables of the file have version {source.version}, and a dry run does not migrate them to version "
                f"{LATEST}; run: outlast db migrate, or move without --dry-run, which migrates them too"
            )
    else:
        _check_versions(source, target, mark, received)
    if received is None:
        try:
            target.store.check_schema()
        except SchemaError as error:
            if error.found or error.advice:
                raise
        else:
            target.check_empty()
    return source.counts()


def move(
    source: SourceFile,
    target: TargetDatabase,
    names: MoveNames,
    *,
    batch: int = BATCH_ROWS,
    progress: Callable[[MoveProgress], object] = lambda _: None,
) -> MoveResult:
    """Move a file, or continue to move it.

    Args:
        source: The file.
        target: The database.
        names: Their display names.
        batch: Rows per transaction.
        progress: Called after every step. If it raises, the move stops and can be resumed.

    Raises:
        MoveError: If it fails. Copied rows stay, and the file stays frozen.
    """
    began, rescued = time.monotonic(), 0
    mark = source.mark()
    received = _matching_move(mark, target.received_move(), names)
    if mark is not None and received is not None and mark.ended_at and received.ended_at:
        return _result(source, began, already=True)
    resumed = mark is not None
    if mark is None:
        source.check_quiet()
    else:
        _check_versions(source, target, mark, received)
    if received is None:
        target.store.create_schema()
        target.check_empty()
    if mark is None:
        source.migrate()
        rescued = source.rescue()
        progress(MoveProgress("freezing the file"))
        mark = source.freeze(names.target)
        progress(MoveProgress("frozen"))
    if received is None:
        received = _begin_receiving(source, target, mark, names)
        progress(MoveProgress("guarded"))
    if mark.receipt is None:
        _pin_target(source, target, mark, received, names)
        progress(MoveProgress("pinned"))
    copied = copy_tables(source, target, received.receipt, batch, progress)
    target.continue_numbers(received.receipt, source.numbers())
    target.analyze()
    progress(MoveProgress("comparing both sides", copied, copied))
    differences = _differences(source, target)
    if differences:
        with target.receiving(received.receipt):
            pass  # raises if another process has ended the move and the target is already in use
        raise MoveError(
            f"the two sides differ: {', '.join(differences)}; nothing is lost, the file is complete: {CANCEL_HINT}"
        )
    progress(MoveProgress("compared", copied, copied))
    source.end(received.receipt)
    progress(MoveProgress("ended", copied, copied))
    target.end(received.receipt)
    return _result(source, began, resumed=resumed, rescued=rescued, copied=copied)


def _begin_receiving(source: SourceFile, target: TargetDatabase, mark: MoveMark, names: MoveNames) -> ReceivedMove:
    """Let the target start to receive. If it refuses, the file is unfrozen.

    If two processes move the same file at once, the second continues what the first has started.
    """
    try:
        return target.begin(mark.id, names.origin)
    except (MoveError, psycopg.Error) as error:
        received = target.received_move()  # raises if the connection is broken, and the file stays frozen
        if received is not None and received.id == mark.id:
            return received
        source.unfreeze(mark.id, unless_pinned=True)
        raise error from None


def _pin_target(
    source: SourceFile, target: TargetDatabase, mark: MoveMark, received: ReceivedMove, names: MoveNames
) -> None:
    """Store the target's receipt in the file. If the file refuses, the target is emptied."""
    try:
        source.pin(mark.id, received.receipt, names.target)
    except MoveError:
        with suppress(MoveError):  # another process has done it
            target.empty(received.receipt)
        raise


def _check_versions(source: SourceFile, target: TargetDatabase, mark: MoveMark, received: ReceivedMove | None) -> None:
    """Check that this version of Outlast has the same tables as the one that started the move.

    Raises:
        MoveError: If it has others, and the move has not ended.
    """
    if mark.ended_at and received is not None and received.ended_at:
        return
    try:
        source.store.check_schema()
        if received is not None:
            target.store.check_schema()
    except SchemaError as error:
        message = (
            f"the move was started by another version of Outlast: its tables have version {error.found}, this version "
            f"needs {error.known}; continue with the version that started it"
        )
        message += "" if mark.ended_at else f", or cancel it: {CANCEL_HINT}"
        raise MoveError(message) from None


def cancel_move(source: SourceFile, target: TargetDatabase | None, names: MoveNames) -> bool:
    """Cancel a move that has not ended: delete the copied rows, then unfreeze the file.

    Returns:
        Whether there was a move.

    Raises:
        MoveError: If the move has ended, or the target belongs to another move.
    """
    received = None if target is None else target.received_move()
    mark = source.mark()  # read after the target, because a file is marked before the target is
    if mark is None:
        if received is not None and received.source != names.origin:
            raise MoveError(f"the target contains rows of {received.source}; pass the target URL of this file")
    else:
        if mark.ended_at is None and target is not None:
            _check_target(mark, received, names)
        source.mark_cancelled(mark.id)  # from here on nobody can pin or end it
        received = None if target is None else target.received_move()  # another process may have started to copy since
    is_receiving = received is not None and received.ended_at is None and (mark is None or received.id == mark.id)
    if target is not None and received is not None and is_receiving:
        target.empty(received.receipt)
    if mark is not None:
        source.unfreeze(mark.id)
    return mark is not None or is_receiving


def _check_target(mark: MoveMark, received: ReceivedMove | None, names: MoveNames) -> None:
    """Check that the target belongs to the cancelled move; otherwise the copy would stay in another database.

    Raises:
        MoveError: If it does not.
    """
    if received is not None and received.id != mark.id:
        message = f"{names.target} contains rows of {received.source}"
    elif received is None and mark.target != names.target:
        message = f"{names.target} contains no rows of this file"
    elif received is not None and mark.receipt and mark.receipt != received.receipt:
        message = f"{names.target} contains an abandoned copy"
    else:
        return
    message += f"; the file is being moved to {mark.target}: pass that URL, or no URL if that database is gone"
    raise MoveError(message)


def _matching_move(mark: MoveMark | None, received: ReceivedMove | None, names: MoveNames) -> ReceivedMove | None:
    """Return the state of this move in the target; None if it has not started there.

    Raises:
        MoveError: If the target belongs to another move.
    """
    if mark is None:
        if received is None:
            return None
        if received.ended_at is not None:
            message = f"the target already contains the rows of {received.source}; use an empty database"
        else:
            message = (
                f"the target is still receiving {received.source}; finish that move, cancel it with --cancel, or use "
                "an empty database"
            )
        raise MoveError(message)
    if mark.receipt == "":
        raise MoveError(f"the move to {mark.target} is being cancelled; run outlast move --cancel again to finish that")
    if received is not None and received.id == mark.id and mark.receipt in {None, received.receipt}:
        return received
    if received is None and mark.receipt is None:
        return None
    other = f"{names.target} is another database, or has lost the record of this move"
    if mark.ended_at is not None:
        message = f"the file was moved to {mark.target} on {mark.ended_at:%Y-%m-%d}; use that database: {other}"
    else:
        message = f"the file is being moved to {mark.target}; pass that URL, or cancel it: {CANCEL_HINT}; {other}"
    raise MoveError(message)


def _differences(source: SourceFile, target: TargetDatabase) -> list[str]:
    """Compare the rows and counters of both sides; return the differences as texts."""
    pairs: dict[str, tuple[dict[str, int], dict[str, int]]] = {
        "rows of": (source.counts(), target.counts()),
        "counter of": (source.store.counter_check()[0], target.store.counter_check()[0]),
        "counted": (source.store.counter_check()[1], target.store.counter_check()[1]),
        "total of": (source.store.event_totals(), target.store.event_totals()),
    }
    return [
        f"{what} {name}: {before} in the file, {after.get(name)} in the target"
        for what, (left, after) in pairs.items()
        for name, before in left.items()
        if before != after.get(name)
    ]


def _result(source: SourceFile, began: float, **more: Any) -> MoveResult:
    return MoveResult(source.counts(), source.foreign_tables(), time.monotonic() - began, **more)


_POSTGRES_SCHEMES = {"postgresql", "postgres"}
_ONE_WAY = "a move goes from SQLite to PostgreSQL and not back"


def open_source(url: str) -> closing[SourceFile]:
    """Open the SQLite file of a URL.

    Raises:
        ConfigError: If the URL has another scheme or the file does not exist.
    """
    scheme = _scheme(url, "first")
    if scheme in _POSTGRES_SCHEMES:
        raise ConfigError(f"the first URL is a PostgreSQL URL: {_ONE_WAY}; pass sqlite:///file.db first")
    if scheme != "sqlite":
        raise ConfigError(
            f"the first URL has the scheme {scheme!r}, but only a file can be moved; pass sqlite:///file.db"
        )
    _, path = open_store(url)
    assert path is not None  # noqa: S101  # for the type checker
    return closing(SourceFile(path, spool_folder(url, path)))


def open_target(url: str) -> closing[TargetDatabase]:
    """Connect to the PostgreSQL database of a URL.

    Raises:
        ConfigError: If the URL has another scheme.
    """
    scheme = _scheme(url, "second")
    if scheme not in _POSTGRES_SCHEMES:
        raise ConfigError(f"the second URL has the scheme {scheme!r}: {_ONE_WAY}; pass postgresql://user@host/database")
    return closing(TargetDatabase(url))


def _scheme(url: str, place: str) -> str:
    try:
        return urlsplit(url).scheme
    except ValueError as error:  # the message does not show the URL, which may contain a password
        raise ConfigError(
            f"the {place} URL is not valid: {error}; pass sqlite:///file.db and postgresql://user@host/database"
        ) from None
