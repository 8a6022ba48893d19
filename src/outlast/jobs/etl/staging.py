"""The ledger of an ETL: which version of each record is known, where its raw object is, and what of it was applied."""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from typing import Any, NamedTuple, Protocol

from outlast import clock
from outlast.decide.policy import RetryPolicy
from outlast.decide.presets import preset
from outlast.errors import ConfigError
from outlast.run.retry import wrap
from outlast.sql_files import load_statements

__all__ = ["PAGE", "StagingRepo", "StagingRow", "StagingTable", "StagingTransaction", "key_of", "now", "statements"]

PAGE = 1000
"""Ids that are read at once."""
_TABLE = re.compile(r"[a-z_][a-z0-9_]{0,62}(?:\.[a-z_][a-z0-9_]{0,62})?")


class StagingRow(NamedTuple):
    """One record, unique by source, entity and source_id.

    Attributes:
        source: Where it comes from.
        entity: What it is.
        source_id: Its id there.
        hash: Of the version that was fetched last.
        raw_key: Where that version is in the raw store.
        fetched_at: When that fetch began; aware. A fetch that found nothing new does not move it.
        applied_at: When a version was last applied.
        applied_hash: Which one.
        apply_version: By which version of the user's function.
    """

    source: str
    entity: str
    source_id: str
    hash: str
    raw_key: str
    fetched_at: datetime
    applied_at: datetime | None = None
    applied_hash: str | None = None
    apply_version: int | None = None

    def is_applied(self, apply_version: int) -> bool:
        """Tell whether the version that is stored was applied, by this version of the function or a later one."""
        return self.applied_hash == self.hash and self.apply_version is not None and self.apply_version >= apply_version


class StagingTransaction(Protocol):
    """A transaction of the user's database, with the ledger and the user's own tables in it."""

    @property
    def connection(self) -> Any:
        """The connection, for what is applied. It is not to be committed or rolled back by hand."""

    def upsert(self, row: StagingRow) -> bool:
        """Write what was fetched; False, and nothing is written, if a later fetch is known already."""

    def get(self, source: str, entity: str, source_id: str) -> StagingRow | None:
        """Return a row that nobody else changes until the end of the transaction."""

    def mark_applied(self, row: StagingRow, apply_version: int) -> None:
        """Note that this version of a record was applied."""


class StagingRepo(Protocol):
    """The ledger, in the user's database. Every method is a transaction of its own."""

    def create(self) -> None:
        """Make the table where there is none."""

    def exists_hash(
        self,
        source: str,
        entity: str,
        source_id: str,
        hash: str,  # noqa: A002  # as the column is named
        *,
        apply_version: int | None = None,
    ) -> bool:
        """Tell whether this version of a record is stored and was applied: then there is nothing to be done.

        Args:
            source: Where it comes from.
            entity: What it is.
            source_id: Its id there.
            hash: Of the version.
            apply_version: It must have been applied by this version of the function or a later one; None for any.
        """

    def get(self, source: str, entity: str, source_id: str) -> StagingRow | None:
        """Return a row."""

    def batch_upsert(self, rows: Iterable[StagingRow]) -> int:
        """Write what was fetched, all rows or none; return how many were written, later fetches being left alone.

        Their raw objects must be there already. What was applied is not changed by it: such rows are still to be
        applied.
        """

    def outdated(self, source: str, entity: str, apply_version: int) -> Iterator[str]:
        """Yield the ids of records whose stored version was not applied, or by an older version of the function."""

    def transaction(self) -> AbstractContextManager[StagingTransaction]:
        """Begin a transaction; the end of the block commits it, an error rolls all of it back."""

    def close(self) -> None:
        """Close the connections that were opened here."""


class StagingTable(ABC):
    """What the ledgers of both databases do alike; each brings its transactions and its rows.

    Args:
        policy: Retries what `batch_upsert` does.
    """

    def __init__(self, policy: RetryPolicy | None) -> None:
        """Keep the policy."""
        self._write = wrap(self._upsert_all, policy or preset("etl"), None)

    @abstractmethod
    def transaction(self) -> AbstractContextManager[StagingTransaction]:
        """Begin a transaction."""

    @abstractmethod
    def _read(self, name: str, values: dict[str, Any]) -> list[tuple[Any, ...]]:
        """Run a query by its name; no transaction is left open by it."""

    @abstractmethod
    def _row(self, found: tuple[Any, ...]) -> StagingRow:
        """Return a row of the table."""

    def exists_hash(
        self,
        source: str,
        entity: str,
        source_id: str,
        hash: str,  # noqa: A002  # as the column is named
        *,
        apply_version: int | None = None,
    ) -> bool:
        """Tell whether this version of a record is stored and was applied."""
        values = {**key_of(source, entity, source_id), "hash": hash, "apply_version": apply_version}
        return bool(self._read("exists_hash", values))

    def get(self, source: str, entity: str, source_id: str) -> StagingRow | None:
        """Return a row."""
        found = self._read("get", key_of(source, entity, source_id))
        return self._row(found[0]) if found else None

    def batch_upsert(self, rows: Iterable[StagingRow]) -> int:
        """Write what was fetched, all rows or none; return how many were written."""
        ordered = sorted(rows, key=lambda row: row[:3])  # two batches in one order cannot deadlock
        written: int = self._write(ordered)
        return written

    def outdated(self, source: str, entity: str, apply_version: int) -> Iterator[str]:
        """Yield the ids of records whose stored version is still to be applied."""
        after = ""
        while True:
            values = {"source": source, "entity": entity, "apply_version": apply_version, "after": after, "limit": PAGE}
            found = [each[0] for each in self._read("outdated", values)]
            yield from found
            if len(found) < PAGE:
                return
            after = found[-1]

    def _upsert_all(self, rows: list[StagingRow]) -> int:
        with self.transaction() as transaction:
            return sum(transaction.upsert(row) for row in rows)


def now() -> datetime:
    """Return the time."""
    return datetime.fromtimestamp(clock.now(), UTC)


def key_of(source: str, entity: str, source_id: str) -> dict[str, Any]:
    """Return what tells a record from others, by column."""
    return {"source": source, "entity": entity, "source_id": source_id}


def statements(database: str, table: str) -> dict[str, str]:
    """Return the statements for a database by name, for a table of that name.

    Raises:
        ConfigError: If it is not a valid name of a table.
    """
    if not _TABLE.fullmatch(table):
        message = (
            f"table is {table!r}; choose lower-case letters, digits and underscores, if need be with a schema before"
        )
        raise ConfigError(message)
    quoted = ".".join(f'"{part}"' for part in table.split("."))
    return load_statements(__package__, f"sql/{database}", table=quoted)
