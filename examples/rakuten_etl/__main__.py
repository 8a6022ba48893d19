"""Load a shop's data twice: ``python -m examples.rakuten_etl``. The core alone does it, on this machine alone.

Four jobs (ranking, genre, tag, item) ask an API that has a bad day. What they fetch is kept as files, what they know in
a staging table, what they make of it in tables of the application. The second run finds what is done unchanged, and
does what failed. What your program would not have, the API itself, is in ``api.py``.
"""

from __future__ import annotations

import argparse
import json
import logging
import sqlite3
import sys
import tempfile
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import outlast
from examples.rakuten_etl.api import RakutenApi
from examples.rakuten_etl.tables import TABLES, Table
from outlast.jobs.etl import Etl, FileRawStore, RawStore, S3RawStore, SqliteStaging

if TYPE_CHECKING:
    from collections.abc import Callable

# Five attempts for what may pass (429, 5xx, timeouts, a busy database). The preset begins to wait at a second; an
# example has less time than that.
POLICY = outlast.preset("etl").replace(base_delay=0.02)


def main() -> int:
    """Run all jobs, by default twice; return the worst exit code of the last time."""
    parser = argparse.ArgumentParser(prog="python -m examples.rakuten_etl", description="An ETL on a bad day.")
    parser.add_argument("--runs", type=int, default=2, metavar="N", help="how often all jobs are run (default 2)")
    parser.add_argument("--s3", metavar="BUCKET", help="keep what is fetched there; needs boto3 and its settings")
    parser.add_argument("--logs", action="store_true", help="show what the jobs say on their way")
    options = parser.parse_args()
    logging.basicConfig(stream=sys.stdout, level=logging.WARNING if options.logs else logging.CRITICAL)
    code = 0
    with tempfile.TemporaryDirectory() as folder, RakutenApi() as api:
        database = Path(folder) / "shop.db"
        raw: RawStore = s3(options.s3) if options.s3 else FileRawStore(Path(folder) / "raw")
        app = outlast.App(f"sqlite:///{folder}/jobs.db")
        try:
            create(database)
            jobs = [define(app, api.url, table, raw, SqliteStaging(database)) for table in TABLES]
            for number in range(1, options.runs + 1):
                print(f"Run {number}: {api.mood()}\n")
                code = run(jobs)
                api.next_day()
            sum_up(database, raw)
        finally:
            app.close()
    return code


def run(jobs: list[outlast.Job]) -> int:
    """Run all jobs and print what became of each; return the worst exit code. One that fails stops no other."""
    code = 0
    for job in jobs:
        summary = job.run()
        show(summary)
        code = max(code, summary.exit_code)
        if summary.state == "stopped":  # Ctrl-C or SIGTERM: what ran has finished, and nothing more is begun
            sys.exit(130)
    return code


def define(app: outlast.App, api: str, table: Table, raw: RawStore, staging: SqliteStaging) -> outlast.Job:
    """Make the job of one kind of record.

    How much of it may fail is known for these four: 1 %, and 5 % of the items. Another kind states its own rate.
    """
    etl = Etl(
        source="rakuten",
        entity=table.entity,
        fetch=fetching(f"{api}/{table.entity}"),
        normalize=table.normalize,
        raw=raw,
        staging=staging,
        apply=table.apply,
        policy=POLICY,
    )

    def targets() -> list[str]:  # any iterable will do; a list has a size, so a run that is stopped knows what is left
        ids: list[str] = get(f"{api}/{table.entity}")
        return ids

    @app.job(table.entity, entity=table.entity, targets=targets, policy=POLICY)
    def load(context: outlast.JobContext, source_id: str) -> None:
        context.count(etl.load(source_id, context).outcome)

    return load


def fetching(url: str) -> Callable[[str], Any]:
    """Return what fetches a record. It retries nothing and catches nothing: the job judges what it raises."""
    return lambda source_id: get(f"{url}/{source_id}")


def get(url: str) -> Any:
    """Get a JSON document with what the standard library has."""
    with urllib.request.urlopen(url, timeout=10) as response:
        return json.load(response)


def s3(bucket: str) -> S3RawStore:
    """Return a raw store on S3. The client tries once: the policy tries again, and the two would multiply."""
    import boto3
    from botocore.config import Config

    return S3RawStore(boto3.client("s3", config=Config(retries={"total_max_attempts": 1})), bucket)


def create(database: Path) -> None:
    """Create the tables: the ledger of what was fetched, and those of the application, in one file."""
    SqliteStaging(database).create()
    with sqlite3.connect(database) as connection:
        for table in TABLES:
            connection.executescript(table.schema)


def show(summary: outlast.Summary) -> None:
    """Print what became of a job; `to_json` and `to_markdown` have all of it."""
    print("\n".join(f"    {line}" for line in str(summary).splitlines()))
    new, unchanged = (summary.figures.get(name, 0) for name in ("new", "unchanged"))
    print(
        f"      {new} new + {unchanged} unchanged; {summary.s3_put_success} raw objects put, "
        f"{summary.db_upsert_success} records applied; {summary.attempts} attempts in all"
    )
    for group in summary.groups:
        print(f"      {group['size']} x {group['category']}: {group['error']}, for instance {group['source_id']}")
    if summary.compared is not None:
        print(f"      since the run before: {summary.compared['fixed']} fixed, {summary.compared['broken']} broken")
    print()


def sum_up(database: Path, raw: RawStore) -> None:
    """Print what there is in the end: every row of the ledger has its raw object."""
    with sqlite3.connect(database) as connection:
        rows = connection.execute("SELECT raw_key, hash = applied_hash FROM staging").fetchall()
        counts = [connection.execute(f"SELECT count(*) FROM {table.name}").fetchone()[0] for table in TABLES]
    applied = ", ".join(f"{count} {table.name}" for count, table in zip(counts, TABLES, strict=True))
    there = sum(raw.exists(key) for key, _ in rows)
    print(f"{len(rows)} staging rows, {sum(done for _, done in rows)} applied; {there} raw objects behind them")
    print(f"In the application: {applied}")


if __name__ == "__main__":
    sys.exit(main())
