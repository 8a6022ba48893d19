"""All pages and actions, in the order in which they are tried."""

from outlast.web.pages import (
    audit,
    dead_letter,
    dead_letters,
    failures,
    health,
    jobs,
    overview,
    queues,
    replays,
    sources,
    suggestions,
    tasks,
    waits,
)
from outlast.web.routing import Action, Page

__all__ = ["ACTIONS", "PAGES"]

PAGES: tuple[Page, ...] = (
    *overview.PAGES,
    *failures.PAGES,
    *suggestions.PAGES,
    *dead_letters.PAGES,
    *dead_letter.PAGES,
    *replays.PAGES,
    *tasks.PAGES,
    *queues.PAGES,
    *sources.PAGES,
    *jobs.PAGES,
    *waits.PAGES,
    *health.PAGES,
    *audit.PAGES,
)
"""What there is to see."""
ACTIONS: tuple[Action, ...] = (
    *overview.ACTIONS,
    *failures.ACTIONS,
    *suggestions.ACTIONS,
    *dead_letters.ACTIONS,
    *dead_letter.ACTIONS,
    *replays.ACTIONS,
    *tasks.ACTIONS,
    *queues.ACTIONS,
    *sources.ACTIONS,
    *jobs.ACTIONS,
    *waits.ACTIONS,
    *health.ACTIONS,
    *audit.ACTIONS,
)
"""What there is to do."""
