"""What to do about an error of a database: the hint must not make it worse."""

import sqlite3

import psycopg
import pytest

from outlast.cli.errors import database_hint


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (sqlite3.OperationalError("disk I/O error"), "the disk may be full, missing or failing"),
        (sqlite3.DatabaseError("database disk image is malformed"), "the file is damaged"),
        (psycopg.OperationalError("FATAL: sorry, too many clients already"), "no free connection"),
        (psycopg.errors.QueryCanceled("canceling statement due to statement timeout"), "longer than the server allows"),
        (psycopg.OperationalError("connection refused"), "check that the server is running"),
        (ValueError("disk I/O error"), "None"),
    ],
)
def test_what_is_said(error, said):
    assert said in str(database_hint(error))
