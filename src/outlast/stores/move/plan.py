"""What is moved, and what becomes of it where the two databases keep the same thing in different ways.

All tables of both schemas are moved, column by column under the same names, but for what stands here. A test compares
it with both schemas, so a table or a column that is added later cannot be forgotten.
"""

from outlast.errors import OutlastError
from outlast.stores.sqlite.move_mark import OWN_TABLES

# What is said where a move cannot be done.

CANCEL_HINT = "outlast move --cancel gives it up, and the file is used as before"
"""What can be done instead of going on."""


class MoveError(OutlastError):
    """A move that cannot begin, go on or end; the message says what to do."""


NOT_MOVED = {
    "workers": "processes that live; nobody may be alive while a file is moved",
    "breakers": "as living processes tell of them; they tell it anew",
    "counted_tasks": "PostgreSQL counts what is enqueued where it is enqueued",
    "resource_slots": "held by living processes",
}
"""Tables that are not moved, and why."""

MOVED_TABLES = tuple(table for table in OWN_TABLES if table not in NOT_MOVED)
"""The tables that are, in the order in which they are."""

_NO_LEASE = {"lease_owner": "NULL", "leased_until": "NULL"}

COLUMN_EXPRESSIONS = {
    # all are in the books already
    "task_queue": {"booked": "1"},
    # A delta there has the time at which it happened, not the begin of its ten seconds.
    "task_flow": {"at": "CASE span WHEN 0 THEN seen ELSE at END"},
    # Lines are numbered by source there, without a gap.
    "source_polls": {
        "id": "(SELECT count(*) FROM source_polls AS earlier"
        " WHERE earlier.source_id = source_polls.source_id AND earlier.id <= source_polls.id)"
    },
    # What failed in a replay before it was resumed is told there by a negative number.
    "dead_letter_queue": {
        "replay_id": "CASE WHEN id <= (SELECT forgiven FROM replays WHERE replays.id = dead_letter_queue.replay_id)"
        " THEN -replay_id ELSE replay_id END"
    },
    "sources": _NO_LEASE,
    "replays": _NO_LEASE,
    "alerts": {"leased_until": "NULL"},
}
"""By table: columns of PostgreSQL, and the expressions in SQLite that give them, where it is not the same column."""

DROPPED_COLUMNS = {"task_flow": {"seen"}, "replays": {"forgiven"}}
"""Columns of SQLite that PostgreSQL has no need of."""

GENERATED_COLUMNS = {"task_flow": {"id"}}
"""Columns that PostgreSQL fills by itself."""
