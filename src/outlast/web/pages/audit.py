"""The page of the audit log: who did what by hand, when and why."""

from outlast.operations import NAME, Parameter
from outlast.ports.triage import AuditEntry
from outlast.queue.masking import masked_row
from outlast.report.text_format import detail_text, shortened
from outlast.web.routing import BEFORE, PageData, PageRequest, PageRoute

_ROWS = 50
_MAX_DETAIL_CHARS = 300
_SUBJECT_PAGES = {
    "dead_letter": ("dead_letter", "dead_letter_id"),
    "group": ("failure", "fingerprint"),
    "replay": ("replay", "replay_id"),
    "source": ("source", "source_id"),
    "task": ("task", "task_id"),
}


def read_audit(request: PageRequest) -> PageData:
    """Return a page of audit entries, newest first."""
    rows = request.app.store.audits(**request.values, limit=_ROWS + 1)
    return {
        "rows": [_audit_line(entry) for entry in rows[:_ROWS]],
        "next": rows[_ROWS - 1].id if len(rows) > _ROWS else None,
        "given": {name: value for name, value in request.values.items() if value and name != BEFORE.name},
        "first_page": request.values["before"] is None,
    }


def _audit_line(entry: AuditEntry) -> PageData:
    """Return an entry as the page shows it, masked, and the page of its subject; empty for none."""
    kind, _, subject_id = entry.subject.partition(":")
    page, name = _SUBJECT_PAGES.get(kind, ("", ""))
    known = bool(page and subject_id) and (name == "fingerprint" or subject_id.isdigit())
    masked = masked_row(entry)
    return {
        "entry": masked._replace(detail={}),
        "detail": shortened(detail_text(masked.detail), _MAX_DETAIL_CHARS),
        "page": page if known else "",
        "params": {name: subject_id} if known else {},
    }


_PARAMETERS = (
    Parameter("subject", NAME, "Only entries about this, such as task:12."),
    Parameter("action", NAME, "Only entries of this operation, such as cancel_task."),
    BEFORE,
)
_RETURNS = {"rows": list[PageData], "next": int | None}
PAGES = (PageRoute("audit", "/audit", "audit.html", read_audit, _PARAMETERS, _RETURNS),)
