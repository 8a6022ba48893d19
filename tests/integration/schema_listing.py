"""The schema of a fresh database as sorted lines of text."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing

import psycopg

from outlast.stores.postgres.store import PostgresStore
from outlast.stores.sqlite.store import SqliteStore

_POSTGRES = {
    "table": """
        SELECT relname, concat_ws(' ', CASE relpersistence WHEN 'p' THEN NULL ELSE 'not logged' END,
            (SELECT 'with ' || string_agg(option, ', ' ORDER BY option) FROM unnest(reloptions) AS option))
        FROM pg_class WHERE relnamespace = to_regnamespace(current_schema()) AND relkind IN ('r', 'p', 'v', 'm')
    """,
    "column": """
        SELECT relname || '.' || attname, concat_ws(' ', format_type(atttypid, atttypmod),
            CASE WHEN attcollation <> typcollation THEN 'collate ' || quote_ident(collname) END,
            CASE WHEN attnotnull THEN 'not null' END,
            CASE attidentity WHEN 'a' THEN 'identity always' WHEN 'd' THEN 'identity by default' END,
            CASE attgenerated WHEN '' THEN 'default ' ELSE 'generated ' END || pg_get_expr(adbin, adrelid, true))
        FROM pg_attribute
        JOIN pg_class ON pg_class.oid = attrelid AND relkind IN ('r', 'p', 'v', 'm')
        JOIN pg_type ON pg_type.oid = atttypid
        LEFT JOIN pg_collation ON pg_collation.oid = attcollation
        LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
        WHERE relnamespace = to_regnamespace(current_schema()) AND attnum > 0 AND NOT attisdropped
    """,
    # NOT NULL is a constraint of its own from PostgreSQL 18 on; the columns say it already.
    "constraint": """
        SELECT conrelid::regclass || ' ' || conname, pg_get_constraintdef(oid, true)
        FROM pg_constraint WHERE connamespace = to_regnamespace(current_schema()) AND contype NOT IN ('n', 't')
    """,
    "index": """
        SELECT relname, pg_get_indexdef(oid, 0, true)
        FROM pg_class WHERE relnamespace = to_regnamespace(current_schema()) AND relkind IN ('i', 'I')
    """,
    "trigger": """
        SELECT tgrelid::regclass || ' ' || tgname, pg_get_triggerdef(pg_trigger.oid, true)
        FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid
        WHERE relnamespace = to_regnamespace(current_schema()) AND NOT tgisinternal
    """,
    "function": """
        SELECT proname || '(' || pg_get_function_identity_arguments(oid) || ')', pg_get_functiondef(oid)
            || CASE WHEN has_function_privilege('public', oid, 'EXECUTE') THEN ' for everyone' ELSE ' for its owner' END
        FROM pg_proc WHERE pronamespace = to_regnamespace(current_schema())
    """,
    "sequence": """
        SELECT sequencename, concat_ws(' ', data_type, 'start', start_value, 'by', increment_by, 'cache', cache_size)
        FROM pg_sequences WHERE schemaname = current_schema()
    """,
    "type": """
        SELECT typname, typtype::text FROM pg_type
        WHERE typnamespace = to_regnamespace(current_schema()) AND typtype IN ('e', 'd')
    """,
    "version": "SELECT 'of the tables', max(version)::text FROM schema_version",
}


def postgres_schema(server, database, *, schema=None):
    """Create the tables in a new database, in the default schema or in one of their own; return them as lines."""
    server.execute(f"CREATE DATABASE {database}")
    url = f"{server.url.rpartition('/')[0]}/{database}"
    store = PostgresStore(url, schema=schema)
    store.create_schema()
    store.close()
    with psycopg.connect(url, options=f"-c search_path={schema}" if schema else None) as connection:
        lines = [
            f"{what} {name}: {_one_line(text)}".replace(f"{schema or 'outlast'}.", "").rstrip(": ")
            for what, sql in _POSTGRES.items()
            for name, text in connection.execute(sql).fetchall()
        ]
    return sorted(lines)


def sqlite_schema(path):
    """Create the tables in a new file; return them as lines, with one for each column and constraint."""
    store = SqliteStore(path)
    store.create_schema()
    store.close()
    lines = []
    with closing(sqlite3.connect(path)) as connection:
        for kind, name, sql in connection.execute("SELECT type, name, sql FROM sqlite_master"):
            if sql is None:
                lines.append(f"{kind} {name}: made by SQLite")
            elif kind == "table":
                body, _, options = _one_line(sql).partition("(")[2].rpartition(")")
                lines += [f"table {name}: {options.strip()}".rstrip(": ")]
                lines += [f"part of {name}: {part}" for part in _parts(body)]
            else:
                lines.append(f"{kind} {name}: {_one_line(sql)}")
        (version,) = connection.execute("SELECT max(version) FROM schema_version").fetchone()
    return sorted([*lines, f"version of the tables: {version}"])


def _one_line(sql):
    """Return SQL without comments and with single spaces."""
    return " ".join(re.sub(r"--[^\n]*", "", sql).split())


def _parts(body):
    """Split the body of a CREATE TABLE at its outer commas."""
    depth, parts = 0, [""]
    for char in body:
        depth += {"(": 1, ")": -1}.get(char, 0)
        if char == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    return [part.strip() for part in parts]
