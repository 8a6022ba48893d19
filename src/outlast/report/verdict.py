"""Why a failure was judged as it was, in words, from what is stored of it."""

import shlex
from collections.abc import Mapping
from typing import Any, NamedTuple

from outlast.report.words import CategoryLook, category_look, span

__all__ = ["Verdict", "verdict_of"]

_BY_TEXT, _BY_NAME, _BY_RULE = "text: ", "class name: ", "rule: "
_NOTHING = "nothing matched"


class Verdict(NamedTuple):
    """The judgement of a failure.

    Attributes:
        category: What kind of failure it is.
        meaning: What that says, in words.
        retryable: Whether trying again may help.
        rule: Name of the rule that decided; empty where nothing is known.
        because: What decided, in words.
        facts: What the failure showed, by name.
        asked: What the other side asked for, in words; may be empty.
        command: That explains such a failure, and says how to have it judged otherwise; empty where there is none.
    """

    category: str
    meaning: str
    retryable: bool
    rule: str
    because: str
    facts: dict[str, str]
    asked: str
    command: str


def verdict_of(category: str, failure: Mapping[str, Any]) -> Verdict:
    """Return the judgement of a stored failure.

    Args:
        category: Of the group; goes before what the failure says, for they may have been judged differently since.
        failure: What `Failure.to_dict` returned, masked; empty where nothing is kept any more.
    """
    look = category_look(category)
    rule = str(failure.get("rule") or "")
    return Verdict(
        category,
        look.meaning,
        _retryable(failure, look),
        rule,
        _because(rule),
        _facts(failure),
        _asked(failure),
        _command(failure),
    )


def _retryable(failure: Mapping[str, Any], look: CategoryLook) -> bool:
    said = failure.get("retryable")
    return said if isinstance(said, bool) else look.retryable


def _because(rule: str) -> str:
    if not rule:
        return "It is not known any more what decided."
    if rule == _NOTHING:
        return "Nothing about it was known, so it is not tried again."
    if _BY_RULE in rule:
        return "A rule of your own decided."
    if _BY_TEXT in rule:
        return "Only its text told what it is: the weakest sign there is."
    if _BY_NAME in rule:
        return "The name of its class told what it is: a weak sign."
    return "Its type or status told what it is."


def _facts(failure: Mapping[str, Any]) -> dict[str, str]:
    names = {
        "exception_name": "Error",
        "origin": "Talked to",
        "http_status": "HTTP status",
        "code": "Code",
        "location": "Where",
    }
    return {
        label: str(failure[name]) for name, label in names.items() if failure.get(name) not in {None, "", "unknown"}
    }


def _asked(failure: Mapping[str, Any]) -> str:
    wait = failure.get("retry_after")
    if not isinstance(wait, int | float) or isinstance(wait, bool):
        return ""
    more = "; it asked for longer" if failure.get("capped") else ""
    return f"exactly {span(wait)}{more}" if failure.get("exact") else f"{span(wait)} at least{more}"


def _command(failure: Mapping[str, Any]) -> str:
    subject = failure.get("http_status") or failure.get("code") or failure.get("exception_name")
    return f"outlast explain {shlex.quote(str(subject))}" if subject else ""
