"""The audit log: who asked for what by hand, when and why."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from outlast.ports.triage import AuditEntry
from outlast.queue.masking import masked_text, masked_value
from outlast.web.filters import row_param, text_param
from outlast.web.routing import ActionRoute, PageRequest, PageRoute

_ROWS = 50
_MAX_DETAIL_CHARS = 300  # characters of what was asked for in detail
_SUBJECT_PAGES = {
    "dead_letter": ("dead_letter", "number"),
    "group": ("failure", "fingerprint"),
    "replay": ("replay", "number"),
    "source": ("source", "number"),
    "task": ("task", "number"),
}


class AuditLine(NamedTuple):
    """An entry as the page shows it; its texts are masked.

    Attributes:
        detail: More, in one line.
        page: Name of the page of what it is about; empty for none.
        params: Of that page.
    """

    entry: AuditEntry
    detail: str
    page: str
    params: dict[str, str]


def read_audit(asked: PageRequest) -> Mapping[str, Any]:
    """Return what was asked for by hand, newest first."""
    query = asked.query
    subject, action = text_param(query, "subject"), text_param(query, "action")
    rows = asked.app.store.audits(subject=subject, action=action, before=row_param(query), limit=_ROWS + 1)
    given = {"subject": subject, "action": action}
    return {
        "rows": [_audit_line(entry) for entry in rows[:_ROWS]],
        "next": rows[_ROWS - 1].id if len(rows) > _ROWS else None,
        "given": {name: value for name, value in given.items() if value},
        "first_page": "before" not in query,
    }


def _audit_line(entry: AuditEntry) -> AuditLine:
    kind, _, which = entry.subject.partition(":")
    page, name = _SUBJECT_PAGES.get(kind, ("", ""))
    known = bool(page and which) and (name != "number" or which.isdigit())
    masked = masked_value(json.dumps(entry.detail, default=str))
    detail = ", ".join(f"{name.replace('_', ' ')} {_detail_text(value)}" for name, value in masked.items())
    shown = entry._replace(detail={}, subject=masked_text(entry.subject), reason=masked_text(entry.reason))
    cut = detail if len(detail) <= _MAX_DETAIL_CHARS else f"{detail[: _MAX_DETAIL_CHARS - 1]}…"
    return AuditLine(shown, cut, page if known else "", {name: which} if known else {})


def _detail_text(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(map(_detail_text, value))
    return {True: "yes", False: "no", None: "none"}.get(value, str(value)) if not isinstance(value, dict) else "…"


PAGES: tuple[PageRoute, ...] = (PageRoute("audit", "/audit", "audit.html", read_audit),)
ACTIONS: tuple[ActionRoute, ...] = ()
