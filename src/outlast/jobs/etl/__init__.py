"""An ETL whose order of writes cannot break: fetch, normalize, hash, raw store, staging, apply.

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
    """Load what needs psycopg when it is first asked for."""
    if name == "PostgresStaging":
        from outlast.jobs.etl.staging_postgres import PostgresStaging  # noqa: PLC0415  # part of what is put off

        return PostgresStaging
    message = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(message)
