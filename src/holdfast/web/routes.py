"""All pages and actions, in the order in which they are tried."""

from holdfast.web.pages import dead_letters, failures, health, jobs, overview, queues, sources, tasks, waits
from holdfast.web.routing import Action, Page

__all__ = ["ACTIONS", "PAGES"]

PAGES: tuple[Page, ...] = (
    *overview.PAGES,
    *failures.PAGES,
    *dead_letters.PAGES,
    *tasks.PAGES,
    *queues.PAGES,
    *sources.PAGES,
    *jobs.PAGES,
    *waits.PAGES,
    *health.PAGES,
)
"""What there is to see."""
ACTIONS: tuple[Action, ...] = (
    *overview.ACTIONS,
    *failures.ACTIONS,
    *dead_letters.ACTIONS,
    *tasks.ACTIONS,
    *queues.ACTIONS,
    *sources.ACTIONS,
    *jobs.ACTIONS,
    *waits.ACTIONS,
    *health.ACTIONS,
)
"""What there is to do."""
