"""From evidence to a verdict: codes, SQLSTATE, HTTP status and error numbers, in this order."""

from outlast.classify.codes import judge_code
from outlast.classify.errnos import ERRNOS, name_of_errno
from outlast.classify.sqlstates import judge_sqlstate
from outlast.classify.statuses import judge_status
from outlast.failure import Category, Evidence

__all__ = ["judge"]


def judge(evidence: Evidence, type_name: str = "") -> tuple[Category, str] | None:
    """Return the category that evidence stands for and the name of the rule, or None if it shows nothing.

    Args:
        evidence: What an error or a response shows.
        type_name: Name of the exception class it was read from.
    """
    if evidence.category is not None:
        said = ", ".join(part for part in (type_name, evidence.code) if part)
        return evidence.category, said or "stated"
    if evidence.code is not None and (category := judge_code(evidence.code)) is not None:
        return category, f"code {evidence.code}"
    if evidence.sqlstate is not None:
        category = judge_sqlstate(evidence.sqlstate, evidence.message)
        if category is not None:
            return category, f"sqlstate {evidence.sqlstate}"
    verdict = judge_status(evidence)
    if verdict is not None:
        return verdict
    if evidence.errno is not None:
        name = name_of_errno(evidence.errno)
        if name in ERRNOS:
            return ERRNOS[name], f"errno {name}"
    return None
