"""Suggestions: rules that would judge what nobody knows, to be copied into holdfast.toml. Nothing is written."""

from collections.abc import Mapping
from typing import Any

from holdfast.classify import default_classifier
from holdfast.queue.doubtful import LARGEST, sampled_groups
from holdfast.report.suggestions import suggestions
from holdfast.web.routing import Action, Asked, Page

__all__ = ["ACTIONS", "PAGES"]


def _suggestions(asked: Asked) -> Mapping[str, Any]:
    found = suggestions(sampled_groups(asked.app.store), default_classifier().rules)
    return {"suggestions": found, "looked": LARGEST}


PAGES: tuple[Page, ...] = (Page("suggestions", "/suggestions", "suggestions.html", _suggestions),)
ACTIONS: tuple[Action, ...] = ()
