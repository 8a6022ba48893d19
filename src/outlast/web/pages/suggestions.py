"""Suggestions: rules that would judge what nobody knows, to be copied into outlast.toml. Nothing is written."""

from collections.abc import Mapping
from typing import Any

from outlast.classify import default_classifier
from outlast.queue.doubtful import LARGEST, sampled_groups
from outlast.report.suggestions import suggestions
from outlast.web.routing import Action, Asked, Page

__all__ = ["ACTIONS", "PAGES"]


def _suggestions(asked: Asked) -> Mapping[str, Any]:
    found = suggestions(sampled_groups(asked.app.store), default_classifier().rules)
    return {"suggestions": found, "looked": LARGEST}


PAGES: tuple[Page, ...] = (Page("suggestions", "/suggestions", "suggestions.html", _suggestions),)
ACTIONS: tuple[Action, ...] = ()
