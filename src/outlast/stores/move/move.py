"""The move itself. Whatever ends it in the middle, the same call goes on where it was.

1. The target has to be empty, and nobody may use the file.
2. The file is frozen: from here on it is the same whenever it is looked at.
3. The target is guarded, gives a receipt, and the file keeps it: this file goes there and nowhere else.
4. Tables are copied in batches. Each is written together with how far it got.
5. Both sides are counted and their books compared.
6. The file is told that it was moved, then the target is opened. It is never opened twice.
"""

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
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
"""Rows of a batch."""


class MoveNames(NamedTuple):
    """What both sides are called, for people: without a password."""

    source: str
    target: str

    @property
    def origin(self) -> str:
        """What the target calls the source: a path is not the same on another machine."""
        return f"{self.source} on {socket.gethostname()}"


class MoveResult(NamedTuple):
    """What was moved.

    Attributes:
        tables: Rows by table.
        already: Whether it was over before.
        resumed: Whether it had been begun before.
        rescued: Tasks that dead workers had held.
        strangers: Tables in the file that are not Outlast's, and stay.
        copied: Rows that this call copied.
        seconds: That it took.
    """

    tables: dict[str, int]
    already: bool
    resumed: bool
    rescued: int
    strangers: list[str]
    copied: int
    seconds: float


def preview(source: SourceFile, target: TargetDatabase, names: MoveNames) -> dict[str, int]:
    """Return how many rows of each table would be moved; nothing is changed.

    Raises:
        MoveError: If they could not be moved now.
    """
    mark = source.mark()
    arrival = _matching_move(mark, target.arrival(), names)
    if mark is None:
        source.check_quiet()
        if source.version < LATEST:
            message = (
                f"the tables of the file have version {source.version}, and a dry run does not bring them up to "
                f"{LATEST}; run: outlast db migrate, or move without --dry-run, which does it too"
            )
            raise MoveError(message)
    else:
        _check_versions(source, target, mark, arrival)
    if arrival is None and target.has_tables:
        target.store.check_schema()
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
    """Move a file, or go on with it.

    Args:
        source: The file.
        target: The database.
        names: What they are called.
        batch: Rows that are written in one transaction.
        progress: Called after every step; whatever it raises ends the move, which can be resumed.

    Raises:
        MoveError: If it cannot be done; what is copied by then stays, and so does the freeze.
    """
    began, rescued = time.monotonic(), 0
    mark = source.mark()
    arrival = _matching_move(mark, target.arrival(), names)
    if mark is not None and arrival is not None and mark.ended_at and arrival.ended_at:
        return _result(source, began, already=True)
    resumed = mark is not None
    if mark is None:
        source.check_quiet()
    else:
        _check_versions(source, target, mark, arrival)
    if arrival is None:
        target.create_schema()
        target.check_empty()
    if mark is None:
        source.bring_up_to_date()
        rescued = source.rescue()
        progress(MoveProgress("freezing the file", 0, 0))
        mark = source.freeze(names.target)
        progress(MoveProgress("frozen", 0, 0))
    if arrival is None:
        arrival = _begin_receiving(source, target, mark, names)
        progress(MoveProgress("guarded", 0, 0))
    if mark.receipt is None:
        _pin_target(source, target, mark, arrival, names)
        progress(MoveProgress("pinned", 0, 0))
    copied = copy_tables(source, target, arrival.receipt, batch, progress)
    target.continue_numbers(arrival.receipt, source.numbers())
    target.analyze()
    progress(MoveProgress("comparing both sides", copied, copied))
    off = _differences(source, target)
    if off:
        with target.receiving(arrival.receipt):
            pass  # or somebody else has ended it, and the target is in use already
        message = f"the two sides differ: {', '.join(off)}; nothing is lost, the file has everything: {CANCEL_HINT}"
        raise MoveError(message)
    progress(MoveProgress("compared", copied, copied))
    source.end(arrival.receipt)
    progress(MoveProgress("ended", copied, copied))
    target.end(arrival.receipt)
    return _result(source, began, resumed=resumed, rescued=rescued, copied=copied)


def _begin_receiving(source: SourceFile, target: TargetDatabase, mark: MoveMark, names: MoveNames) -> ReceivedMove:
    """Have the target begin. Where it says no, nothing has happened: then the file is used as before.

    Of two that move the same file at once the second goes on with what the first has begun.
    """
    try:
        return target.begin(mark.id, names.origin)
    except (MoveError, psycopg.Error) as error:
        arrival = target.arrival()  # where the line is broken nobody knows: the file stays frozen
        if arrival is not None and arrival.id == mark.id:
            return arrival
        source.thaw(mark.id, unless_pinned=True)
        raise error from None


def _pin_target(
    source: SourceFile, target: TargetDatabase, mark: MoveMark, arrival: ReceivedMove, names: MoveNames
) -> None:
    """Have the file keep the target's receipt. Where it does not, it never will: then the target is as before."""
    try:
        source.pin(mark.id, arrival.receipt, names.target)
    except MoveError:
        with suppress(MoveError):  # somebody else has done it
            target.empty(arrival.receipt)
        raise


def _check_versions(source: SourceFile, target: TargetDatabase, mark: MoveMark, arrival: ReceivedMove | None) -> None:
    """See that a move is gone on with by the version of Outlast that has begun it, or one with the same tables.

    Raises:
        MoveError: If it is not, and the move is not over.
    """
    if mark.ended_at and arrival is not None and arrival.ended_at:
        return
    try:
        source.store.check_schema()
        if arrival is not None:
            target.store.check_schema()
    except SchemaError as error:
        message = (
            f"the move was begun by another version of Outlast: its tables have version {error.found}, those of this "
            f"one {error.known}; go on with the version that began it"
        )
        message += "" if mark.ended_at else f", or {CANCEL_HINT}"
        raise MoveError(message) from None


def cancel_move(source: SourceFile, target: TargetDatabase | None, names: MoveNames) -> bool:
    """Give up a move that is not over: what was copied goes, then the file is used as before.

    Returns:
        Whether there was one.

    Raises:
        MoveError: If it is over, or the two do not belong together.
    """
    arrival = None if target is None else target.arrival()
    mark = source.mark()  # behind the other: a file knows of its move before the target does
    if mark is None:
        if arrival is not None and arrival.source != names.origin:
            message = f"what the target has comes from {arrival.source}; give the URL that belongs to this file"
            raise MoveError(message)
    else:
        if mark.ended_at is None and target is not None:
            _check_target(mark, arrival, names)
        source.give_up(mark.id)  # from here on nobody can pin or end it
        arrival = None if target is None else target.arrival()  # somebody may have begun there since
    begun_there = arrival is not None and arrival.ended_at is None and (mark is None or arrival.id == mark.id)
    if target is not None and arrival is not None and begun_there:
        target.empty(arrival.receipt)
    if mark is not None:
        source.thaw(mark.id)
    return mark is not None or begun_there


def _check_target(mark: MoveMark, arrival: ReceivedMove | None, names: MoveNames) -> None:
    """See that it is the target of the move that is given up, or the copy would be left behind in another one.

    Raises:
        MoveError: If it is not.
    """
    if arrival is not None and arrival.id != mark.id:
        message = f"{names.target} has what comes from {arrival.source}"
    elif arrival is None and mark.target != names.target:
        message = f"{names.target} has nothing of this file"
    elif arrival is not None and mark.receipt and mark.receipt != arrival.receipt:
        message = f"{names.target} has a copy that was not gone on with"
    else:
        return
    message += f"; the file is on its way to {mark.target}: give that URL, or none if that database is gone"
    raise MoveError(message)


def _matching_move(mark: MoveMark | None, arrival: ReceivedMove | None, names: MoveNames) -> ReceivedMove | None:
    """Return what of this very move the target has; None where it has not begun there.

    Raises:
        MoveError: If the two do not belong together.
    """
    if mark is None:
        if arrival is None:
            return None
        if arrival.ended_at is not None:
            message = f"the target has the rows of {arrival.source} already; give an empty database"
        else:
            message = (
                f"the target waits for the rest of {arrival.source}; end that move, give it up by --cancel, or give an "
                "empty database"
            )
        raise MoveError(message)
    if mark.receipt == "":
        message = f"the move to {mark.target} was being given up; run outlast move --cancel again, which ends that"
        raise MoveError(message)
    if arrival is not None and arrival.id == mark.id and mark.receipt in {None, arrival.receipt}:
        return arrival
    if arrival is None and mark.receipt is None:
        return None
    other = f"{names.target} is another one, or has lost what it knew of it"
    if mark.ended_at is not None:
        message = f"the file was moved to {mark.target} on {mark.ended_at:%Y-%m-%d}; use that one: {other}"
    else:
        message = f"the file is on its way to {mark.target}; give that URL, or {CANCEL_HINT}: {other}"
    raise MoveError(message)


def _differences(source: SourceFile, target: TargetDatabase) -> list[str]:
    """Compare rows and books of both sides; return what differs, for people."""
    pairs: dict[str, tuple[dict[str, int], dict[str, int]]] = {
        "rows of": (source.counts(), target.counts()),
        "by the books": (source.store.counter_check()[0], target.store.counter_check()[0]),
        "counted": (source.store.counter_check()[1], target.store.counter_check()[1]),
        "ever": (source.store.event_totals(), target.store.event_totals()),
    }
    return [
        f"{what} {name} {before} in the file and {after.get(name)} there"
        for what, (left, after) in pairs.items()
        for name, before in left.items()
        if before != after.get(name)
    ]


def _result(source: SourceFile, began: float, **more: Any) -> MoveResult:
    fields = {"already": False, "resumed": False, "rescued": 0, "copied": 0} | more
    return MoveResult(tables=source.counts(), strangers=source.strangers(), seconds=time.monotonic() - began, **fields)


# From the two URLs of a move to its sides; in words that help where one cannot be.

_POSTGRES_SCHEMES = {"postgresql", "postgres"}
_ONE_WAY = "a move goes from SQLite to PostgreSQL and not back"


@contextmanager
def open_source(url: str) -> Iterator[SourceFile]:
    """Open the file of a URL.

    Raises:
        ConfigError: If it names none.
    """
    scheme = _scheme(url, "first")
    if scheme in _POSTGRES_SCHEMES:
        message = f"the first URL is that of a PostgreSQL database: {_ONE_WAY}; give sqlite:///file.db first"
        raise ConfigError(message)
    if scheme != "sqlite":
        message = f"the first URL has the scheme {scheme!r}, and only a file can be moved; give sqlite:///file.db"
        raise ConfigError(message)
    _, path = open_store(url)
    assert path is not None  # noqa: S101  # for the type checker
    source = SourceFile(path, spool_folder(url, path))
    try:
        yield source
    finally:
        source.close()


@contextmanager
def open_target(url: str) -> Iterator[TargetDatabase]:
    """Connect to the database of a URL.

    Raises:
        ConfigError: If it names none.
    """
    scheme = _scheme(url, "second")
    if scheme not in _POSTGRES_SCHEMES:
        message = f"the second URL has the scheme {scheme!r}: {_ONE_WAY}; give postgresql://user@host/database"
        raise ConfigError(message)
    target = TargetDatabase(url)
    try:
        yield target
    finally:
        target.close()


def _scheme(url: str, place: str) -> str:
    try:
        return urlsplit(url).scheme
    except ValueError as error:  # of the URL itself nothing is shown: it may hold a password
        message = f"the {place} URL cannot be read: {error}; give sqlite:///file.db and postgresql://user@host/database"
        raise ConfigError(message) from None
