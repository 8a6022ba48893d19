"""A small shop for tests of the ETL: its tables on both databases, what is applied to them, and what they hold."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from itertools import count
from typing import Any

from outlast.jobs.etl import Etl, SqliteStaging, content_hash, raw_key

SOURCE, ENTITY = "rakuten", "item"
ONE = "shop:1"
NOTHING = {"staging": [], "items": [], "tags": []}
TABLES = (
    "CREATE TABLE items (id TEXT PRIMARY KEY, name TEXT NOT NULL, price INTEGER NOT NULL CHECK (price >= 0))",
    "CREATE TABLE item_tags (item_id TEXT NOT NULL REFERENCES items (id), tag TEXT NOT NULL, PRIMARY KEY (item_id, tag))",
)
_numbers = count(1)


class Shop:
    """The user's database.

    Args:
        kind: ``sqlite`` or ``postgres``.
        address: Path or URL.
    """

    def __init__(self, kind: str, address: str) -> None:
        self.kind, self.address = kind, address
        self.repos: list[Any] = []

    def connect(self) -> Any:
        if self.kind == "sqlite":
            return sqlite3.connect(self.address, timeout=10)
        import psycopg

        return psycopg.connect(self.address)

    def create(self) -> Shop:
        self.staging().create()
        with closing(self.connect()) as connection:
            for table in TABLES:
                connection.execute(table)
            connection.commit()
        return self

    def staging(self, database: Any = None, **settings: Any) -> Any:
        """Open the ledger, by address unless a connection is given."""
        if self.kind == "sqlite":
            repo: Any = SqliteStaging(database or self.address, **settings)
        else:
            from outlast.jobs.etl import PostgresStaging

            repo = PostgresStaging(database or self.address, **settings)
        self.repos.append(repo)
        return repo

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        with closing(self.connect()) as connection:
            return [tuple(row) for row in connection.execute(sql).fetchall()]

    def run(self, sql: str) -> None:
        with closing(self.connect()) as connection:
            connection.execute(sql)
            connection.commit()

    def contents(self) -> dict[str, list[tuple[Any, ...]]]:
        """Everything but times."""
        return {
            "staging": self.rows(
                "SELECT source_id, hash, raw_key, applied_hash, apply_version FROM staging ORDER BY source_id"
            ),
            "items": self.rows("SELECT id, name, price FROM items ORDER BY id"),
            "tags": self.rows("SELECT item_id, tag FROM item_tags ORDER BY item_id, tag"),
        }

    def apply(self, connection: Any, record: dict[str, Any], passed: Any = lambda point: None) -> None:
        """Upsert an item and bring its tags in line, which deletes."""
        mark = "?" if self.kind == "sqlite" else "%s"
        passed("staged")
        connection.execute(
            f"INSERT INTO items (id, name, price) VALUES ({mark}, {mark}, {mark}) "
            "ON CONFLICT (id) DO UPDATE SET name = excluded.name, price = excluded.price",
            (record["id"], record["name"], record["price"]),
        )
        connection.execute(f"DELETE FROM item_tags WHERE item_id = {mark}", (record["id"],))
        passed("deleted")
        for tag in record["tags"]:
            connection.execute(f"INSERT INTO item_tags (item_id, tag) VALUES ({mark}, {mark})", (record["id"], tag))
        passed("applied")

    def close(self) -> None:
        for repo in self.repos:
            repo.close()


def new_shop(kind: str, folder: Any, server: Any = None) -> Shop:
    """Make a database with the tables and nothing in them."""
    if kind == "sqlite":
        return Shop(kind, str(folder / f"shop{next(_numbers)}.db")).create()
    name = f"shop{next(_numbers)}"
    server.execute(f"CREATE DATABASE {name}")
    return Shop(kind, f"{server.url.rpartition('/')[0]}/{name}").create()


def document(number: int, version: int = 1, **changes: Any) -> dict[str, Any]:
    """What the API answers; `asked` differs every time, and is no part of the record."""
    tags = [f"tag{(number + each) % 5}" for each in range(version)]
    return {"itemCode": f"shop:{number}", "name": f"Item {number}", "price": 100 * version, "tags": tags, **changes}


def normalize(answer: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": answer["itemCode"],
        "name": answer["name"].strip(),
        "price": answer["price"],
        "tags": sorted(set(answer["tags"])),
    }


class Api:
    """What is fetched from: a dict of documents, and a count of how often it was asked."""

    def __init__(self, **documents: Any) -> None:
        self.documents: dict[str, Any] = dict(documents)
        self.asked: list[str] = []

    def fetch(self, source_id: str) -> Any:
        self.asked.append(source_id)
        found = self.documents[source_id]
        if isinstance(found, Exception):
            raise found
        return {**found, "asked": len(self.asked)} if isinstance(found, dict) else found


class Counting:
    """A raw store that counts what is put, and may fail."""

    def __init__(self, inner: Any, errors: Any = ()) -> None:
        self.inner, self.puts, self.errors = inner, [], list(errors)

    def put(self, key: str, data: bytes) -> None:
        self.puts.append(key)
        if self.errors:
            error = self.errors.pop(0)
            if error is not None:
                raise error
        self.inner.put(key, data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


class Context:
    """What a job hands to its handler, as far as an Etl looks at it."""

    def __init__(self, *, dry_run: bool = False) -> None:
        self.counts: dict[str, int] = {}
        self.dry_run = dry_run

    def count(self, name: str) -> None:
        self.counts[name] = self.counts.get(name, 0) + 1

    def keys(self) -> dict[str, Any]:
        return {"job_id": "items", "run_id": "run-1", "source_id": "shop:1"}


def make_etl(shop: Shop, raw: Any, api: Any, **changes: Any) -> Etl:
    """Put the parts together."""
    parts = {
        "source": SOURCE,
        "entity": ENTITY,
        "fetch": api.fetch if isinstance(api, Api) else api,
        "normalize": normalize,
        "raw": raw,
        "staging": None,
        "apply": shop.apply,
        **changes,
    }
    parts["staging"] = parts["staging"] or shop.staging()
    return Etl(**parts)


def key_of(answer):
    """Return under which name the raw object of an answer is kept."""
    record = normalize(answer)
    return raw_key(SOURCE, ENTITY, record["id"], content_hash(record))
