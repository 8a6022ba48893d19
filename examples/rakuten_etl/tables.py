"""The four kinds of records: how each is normalized, and what is made of it in the application's tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

Record = dict[str, Any]


class Table(NamedTuple):
    """One kind of record.

    Attributes:
        entity: What it is called.
        name: Of its table.
        schema: SQL that creates it.
        normalize: Makes a record of what was fetched, without what differs between two fetches of the same.
        apply: Upserts it, in a transaction that is not its own to end.
    """

    entity: str
    name: str
    schema: str
    normalize: Callable[[Any], Record]
    apply: Callable[[sqlite3.Connection, Record], object]


def ranking(answer: Any) -> Record:
    """Keep the order of the items; when it was asked for does not matter."""
    return {"genre": answer["genreId"], "items": [each["itemCode"] for each in answer["Items"]]}


def apply_ranking(connection: sqlite3.Connection, record: Record) -> None:
    """Replace a ranking whole: what deletes is safe here, as the transaction is rolled back if anything fails."""
    connection.execute("DELETE FROM rankings WHERE genre = ?", (record["genre"],))
    ranks = [(record["genre"], rank, code) for rank, code in enumerate(record["items"], 1)]
    connection.executemany("INSERT INTO rankings (genre, rank, item) VALUES (?, ?, ?)", ranks)


def named(answer: Any) -> Record:
    """Keep a name."""
    return {"id": answer["id"], "name": answer["name"].strip()}


def applying_named(table: str) -> Callable[[sqlite3.Connection, Record], object]:
    """Return what upserts a name into a table."""
    return lambda connection, record: connection.execute(
        f"INSERT INTO {table} (id, name) VALUES (:id, :name) ON CONFLICT (id) DO UPDATE SET name = excluded.name",
        record,
    )


def item(answer: Any) -> Record:
    """Keep what the shop needs of an item; the API also tells when it was asked, which is no change."""
    return {
        "code": answer["itemCode"],
        "name": answer["itemName"].strip(),
        "price": answer["itemPrice"],
        "tags": sorted(set(answer["tagIds"])),
    }


def apply_item(connection: sqlite3.Connection, record: Record) -> None:
    """Upsert an item, and bring its tags in line."""
    connection.execute(
        "INSERT INTO items (code, name, price) VALUES (:code, :name, :price) "
        "ON CONFLICT (code) DO UPDATE SET name = excluded.name, price = excluded.price",
        record,
    )
    connection.execute("DELETE FROM item_tags WHERE item = ?", (record["code"],))
    tags = [(record["code"], tag) for tag in record["tags"]]
    connection.executemany("INSERT INTO item_tags (item, tag) VALUES (?, ?)", tags)


_NAMED = "CREATE TABLE {0} (id TEXT PRIMARY KEY, name TEXT NOT NULL);"
_RANKINGS = "CREATE TABLE rankings (genre TEXT, rank INTEGER, item TEXT NOT NULL, PRIMARY KEY (genre, rank));"
_ITEMS = """
    CREATE TABLE items (code TEXT PRIMARY KEY, name TEXT NOT NULL, price INTEGER NOT NULL CHECK (price >= 0));
    CREATE TABLE item_tags (item TEXT NOT NULL, tag TEXT NOT NULL, PRIMARY KEY (item, tag));
"""
TABLES = (
    Table("ranking", "rankings", _RANKINGS, ranking, apply_ranking),
    Table("genre", "genres", _NAMED.format("genres"), named, applying_named("genres")),
    Table("tag", "tags", _NAMED.format("tags"), named, applying_named("tags")),
    Table("item", "items", _ITEMS, item, apply_item),
)
