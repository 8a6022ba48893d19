"""The statements of lists, one for each index that they may walk along."""

from collections.abc import Mapping

__all__ = ["walks"]

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
_LETTERS = {
    "dead_letter_lines_fingerprint": ("fingerprint", "fingerprint"),
    "dead_letter_lines_task_type": ("task_type", "task_type"),
    "dead_letter_lines_category": ("error_category", "category"),
    "dead_letter_lines_queue": ("queue", "queue"),
    "dead_letter_lines_reason": ("reason", "reason"),
}
_NEWER = """least(%(before)s::bigint, (
            SELECT min(id)
            FROM (
                SELECT id FROM holdfast.dead_letter_queue
                WHERE moved_to_dlq_at >= %(until)s::timestamptz + interval '1 minute'
                ORDER BY moved_to_dlq_at LIMIT 100
            ) AS newer
        ))"""
_OLDER = """coalesce((
            SELECT min(id)
            FROM (
                SELECT id FROM holdfast.dead_letter_queue
                WHERE moved_to_dlq_at < %(since)s::timestamptz - interval '1 minute'
                ORDER BY moved_to_dlq_at DESC LIMIT 100
            ) AS older
        ), 0)"""
_LIVE = {
    "task_lines_queued": """(
            SELECT * FROM holdfast.task_queue
            WHERE status = 'QUEUED' AND NOT suspect AND (%(queue)s::text IS NULL OR queue = %(queue)s::text)
            ORDER BY queue, priority, next_run_after, id LIMIT %(look)s + 1
        )
        UNION ALL
        (
            SELECT * FROM holdfast.task_queue
            WHERE status = 'QUEUED' AND suspect AND (%(queue)s::text IS NULL OR queue = %(queue)s::text)
            ORDER BY queue, next_run_after, id LIMIT %(look)s + 1
        )""",
    "task_lines_running": """SELECT * FROM holdfast.task_queue
        WHERE status = 'RUNNING' ORDER BY worker_id LIMIT %(look)s + 1""",
    "task_lines_parked": """SELECT * FROM holdfast.task_queue
        WHERE status = 'PARKED' AND (%(task_type)s::text IS NULL OR task_type = %(task_type)s::text)
        ORDER BY task_type LIMIT %(look)s + 1""",
}
_BY_NUMBER = """WHERE id < %(before)s
        ORDER BY id DESC"""
_BY_LETTER = """JOIN (
            SELECT original_task_id FROM holdfast.dead_letter_queue
            WHERE original_task_id < %(before)s ORDER BY original_task_id DESC LIMIT %(look)s + 1
        ) AS letter ON letter.original_task_id = task_queue.id
        ORDER BY id DESC"""
"""What failed has its dead letter, which is found in the order of the tasks."""


def walks(texts: Mapping[str, str]) -> dict[str, str]:
    """Return the statements by name, made from the ones that leave open along what they walk."""
    lines = texts["dead_letter_lines"]
    newest = f"WHERE id < {_NEWER} AND id > {_OLDER}\n        ORDER BY id DESC"
    given = "WHERE id = ANY (%(ids)s::bigint[]) AND id < %(before)s\n        ORDER BY id DESC"
    return (
        {name: _walk(texts["failures"], _along_groups(columns), columns) for name, columns in _GROUPS.items()}
        | {name: _walk(lines, _along_letters(*by), (by[0], "id")) for name, by in _LETTERS.items()}
        | {
            name: _walk(lines, walk, ("id",))
            for name, walk in (("dead_letter_lines", newest), ("dead_letter_lines_ids", given))
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


def _along_letters(column: str, value: str) -> str:
    names, given = f"({column}, id)", f"%({value})s::text"
    return (
        f"WHERE {names} < ({given}, {_NEWER}) AND {names} > ({given}, {_OLDER})\n"
        f"        ORDER BY {_order((column, 'id'))}"
    )
