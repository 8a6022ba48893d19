"""What a move copies, and how it converts what the two databases store in different ways.

All tables and columns are copied under the same names, except for those listed here. A test compares this with both
schemas, so that a new table or column cannot be forgotten.
"""

from outlast.errors import OutlastError
from outlast.stores.sqlite.move_mark import OWN_TABLES

CANCEL_HINT = "outlast move --cancel makes the file usable again"
"""Part of error messages."""


class MoveError(OutlastError):
    """A move cannot start, continue or end. The message says what to do."""


NOT_MOVED = {
    "workers": "live processes; none may be alive while a file is moved",
    "breakers": "states of live processes, which report them again",
    "counted_tasks": "PostgreSQL counts tasks when they are enqueued",
    "resource_slots": "held by live processes",
}
"""Tables that are not moved, and why."""

MOVED_TABLES = tuple(table for table in OWN_TABLES if table not in NOT_MOVED)
"""Tables that are moved, in this order."""

_NO_LEASE = {"lease_owner": "NULL", "leased_until": "NULL"}

COLUMN_EXPRESSIONS = {
    # all tasks are already counted
    "task_queue": {"booked": "1"},
    # In PostgreSQL a delta has the exact time, not the start of its ten seconds.
    "task_flow": {"at": "CASE span WHEN 0 THEN seen ELSE at END"},
    # In PostgreSQL history entries are numbered per source, without gaps.
    "source_polls": {
        "id": "(SELECT count(*) FROM source_polls AS earlier"
        " WHERE earlier.source_id = source_polls.source_id AND earlier.id <= source_polls.id)"
    },
    # In PostgreSQL a negative number marks tasks that failed before their replay was resumed.
    "dead_letter_queue": {
        "replay_id": "CASE WHEN id <= (SELECT forgiven FROM replays WHERE replays.id = dead_letter_queue.replay_id)"
        " THEN -replay_id ELSE replay_id END"
    },
    "sources": _NO_LEASE,
    "replays": _NO_LEASE,
    "alerts": {"leased_until": "NULL"},
}
"""By table: SQLite expressions for PostgreSQL columns that are not simply copied."""

GENERATED_COLUMNS = {"task_flow": {"id"}}
"""Columns that PostgreSQL generates."""
