"""The statements of lists, one for each index that they may walk along."""

from collections.abc import Mapping

__all__ = ["LETTERS", "walks"]

_GROUPS = {
    "failures_seen": ("last_seen", "fingerprint"),
    "failures_size": ("failures", "fingerprint"),
    "failures_category": ("error_category", "last_seen", "fingerprint"),
    "failures_task": ("task_type", "last_seen", "fingerprint"),
}
_BEGINS = {
    "last_seen": "'epoch'::timestamptz + %(value)s * interval '1 microsecond'",
    "failures": "%(value)s::bigint",
    "fingerprint": "%(fingerprint)s::text",
    "error_category": "%(category)s::text",
    "task_type": "%(task_type)s::text",
}
_ENDS = {
    "last_seen": "'-infinity'::timestamptz",
    "failures": "-1",
    "fingerprint": "''",
    "error_category": "%(category)s::text",
    "task_type": "%(task_type)s::text",
}
LETTERS = {"ids": "id", "fingerprint": "fingerprint", "task_type": "task_type", "category": "error_category"}
"""What an index of the dead letters helps with, the narrowest first, and its column."""
_NEWER = """least(%(before)s::bigint, (
            SELECT min(id)
            FROM (
                SELECT id FROM outlast.dead_letter_queue
                WHERE moved_to_dlq_at >= %(until)s::timestamptz + interval '1 minute'
                ORDER BY moved_to_dlq_at LIMIT 100
            ) AS newer
        ))"""
_OLDER = """coalesce((
            SELECT min(id)
            FROM (
                SELECT id FROM outlast.dead_letter_queue
                WHERE moved_to_dlq_at < %(since)s::timestamptz - interval '1 minute'
                ORDER BY moved_to_dlq_at DESC LIMIT 100
            ) AS older
        ), 0)"""
_LIVE = {
    "task_lines_queued": """(
            SELECT * FROM outlast.task_queue
            WHERE status = 'QUEUED' AND NOT suspect AND (%(queue)s::text IS NULL OR queue = %(queue)s::text)
            ORDER BY queue, priority, next_run_after, id LIMIT %(look)s + 1
        )
        UNION ALL
        (
            SELECT * FROM outlast.task_queue
            WHERE status = 'QUEUED' AND suspect AND (%(queue)s::text IS NULL OR queue = %(queue)s::text)
            ORDER BY queue, next_run_after, id LIMIT %(look)s + 1
        )""",
    "task_lines_running": """SELECT * FROM outlast.task_queue
        WHERE status = 'RUNNING' ORDER BY worker_id LIMIT %(look)s + 1""",
    "task_lines_parked": """SELECT * FROM outlast.task_queue
        WHERE status = 'PARKED' AND (%(task_type)s::text IS NULL OR task_type = %(task_type)s::text)
        ORDER BY task_type LIMIT %(look)s + 1""",
}
_BY_NUMBER = """WHERE id < %(before)s
        ORDER BY id DESC"""
_BY_LETTER = """JOIN (
            SELECT original_task_id FROM outlast.dead_letter_queue
            WHERE original_task_id < %(before)s ORDER BY original_task_id DESC LIMIT %(look)s + 1
        ) AS letter ON letter.original_task_id = task_queue.id
        ORDER BY id DESC"""
"""What failed has its dead letter, which is found in the order of the tasks."""


def walks(texts: Mapping[str, str]) -> dict[str, str]:
    """Return the statements by name, made from the ones that leave open along what they walk."""
    return (
        {name: _walk(texts["failures"], _along_groups(columns), columns) for name, columns in _GROUPS.items()}
        | {
            f"{name}{along}": _walk(texts[name], walk(value), _letter_order(value))
            for name, walk in (
                ("dead_letter_lines", _along_letters),
                ("replay_meant", _along_letters),
                ("replay_next", _up_letters),
            )
            for value, along in (("", ""), *((value, f"_{value}") for value in LETTERS))
        }
        | {name: texts["task_lines_live"].replace("--walk--", walk) for name, walk in _LIVE.items()}
        | {"task_lines": _walk(texts["task_lines"], _BY_NUMBER, ("id",))}
        | {"task_lines_failed": _walk(texts["task_lines"], _BY_LETTER, ("id",))}
    )


def _walk(text: str, walk: str, columns: tuple[str, ...]) -> str:
    return text.replace("--walk--", walk).replace("--order--", _order(columns))


def _order(columns: tuple[str, ...]) -> str:
    return ", ".join(f"{column} DESC" for column in columns)


def _along_groups(columns: tuple[str, ...]) -> str:
    names = ", ".join(columns)
    begin, end = (", ".join(ends[column] for column in columns) for ends in (_BEGINS, _ENDS))
    return f"WHERE ({names}) < ({begin}) AND ({names}) >= ({end})\n        ORDER BY {_order(columns)}"


def _letter_order(value: str) -> tuple[str, ...]:
    return ("id",) if value in {"", "ids"} else (LETTERS[value], "id")


def _along_letters(value: str) -> str:
    """Walk dead letters from the newest on: all of them, those of some numbers, or those of a value."""
    columns = _letter_order(value)
    if value == "ids":
        where = "id = ANY (%(ids)s::bigint[]) AND id < %(before)s"
    elif not value:
        where = f"id < {_NEWER} AND id > {_OLDER}"
    else:
        names, given = f"({', '.join(columns)})", f"%({value})s::text"
        where = f"{names} < ({given}, {_NEWER}) AND {names} > ({given}, {_OLDER})"
    return f"WHERE {where}\n        ORDER BY {_order(columns)}"


def _up_letters(value: str) -> str:
    """Walk those of a replay that are left, from the oldest on."""
    columns = _letter_order(value)
    if len(columns) == 1:
        where = "id > %(cursor)s AND id <= %(newest)s" + (" AND id = ANY (%(ids)s::bigint[])" if value else "")
    else:
        names, given = f"({', '.join(columns)})", f"%({value})s::text"
        where = f"{names} > ({given}, %(cursor)s) AND {names} <= ({given}, %(newest)s)"
    return f"WHERE {where}\n        ORDER BY {', '.join(columns)}"
