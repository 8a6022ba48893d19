"""An ETL with a fixed order of steps that survives crashes: fetch, normalize, hash, raw store, staging, apply.

>>> etl = Etl(source="rakuten", entity="item", fetch=fetch, normalize=normalize, raw=FileRawStore("raw"),
...           staging=SqliteStaging("app.db"), apply=apply)
>>> etl.load("shop:10001").outcome
'new'
"""

from typing import TYPE_CHECKING

from outlast.jobs.etl.pipeline import Etl, Loaded, canonical_json, content_hash
from outlast.jobs.etl.raw import FileRawStore, RawStore, S3RawStore, raw_key
from outlast.jobs.etl.staging import SqliteStaging, StagingRepo, StagingRow, StagingTransaction

if TYPE_CHECKING:
    from outlast.jobs.etl.staging_postgres import PostgresStaging

__all__ = [
    "Etl",
    "FileRawStore",
    "Loaded",
    "PostgresStaging",
    "RawStore",
    "S3RawStore",
    "SqliteStaging",
    "StagingRepo",
    "StagingRow",
    "StagingTransaction",
    "canonical_json",
    "content_hash",
    "raw_key",
]


def __getattr__(name: str) -> object:
    """Import `PostgresStaging` on first use, because it needs psycopg."""
    if name == "PostgresStaging":
        from outlast.jobs.etl.staging_postgres import PostgresStaging  # noqa: PLC0415  # needs psycopg

        return PostgresStaging
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
