"""The tables of both databases are what tests/data says. To change them on purpose, add a migration and record anew.

tests/data/README.md says how the listings are made.
"""

from itertools import count
from pathlib import Path

import pytest

from integration.schema_listing import postgres_schema, sqlite_schema

DATA = Path(__file__).resolve().parent.parent / "data"
_numbers = count(1)


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_the_tables_are_as_recorded(kind, tmp_path, request):
    if kind == "sqlite":
        found = sqlite_schema(tmp_path / "new.db")
    else:
        found = postgres_schema(request.getfixturevalue("postgres_server"), f"unchanged{next(_numbers)}")
    recorded = (DATA / f"schema_{kind}.txt").read_text("utf-8").splitlines()
    assert [line for line in recorded if line not in found] == [], "missing"
    assert [line for line in found if line not in recorded] == [], "new"
    assert found == recorded


def test_a_schema_by_name_has_the_same_tables(postgres_server):
    found = postgres_schema(postgres_server, f"unchanged{next(_numbers)}", schema="elsewhere")
    assert found == (DATA / "schema_postgres.txt").read_text("utf-8").splitlines()
