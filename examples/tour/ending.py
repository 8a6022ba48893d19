"""What happened in the live tour, told at its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    import outlast

_LIVE = ("QUEUED", "RUNNING", "PARKED")


def happened(app: outlast.App, seconds: float, cooled: Iterable[str], deaths: int) -> str:
    """Return the lines; the tasks add up.

    Args:
        app: Whose store is looked into.
        seconds: How long it took.
        cooled: Hosts that were left alone for a while.
        deaths: Processes that died.
    """
    lines = [f"What happened in {seconds:.0f} s:", *_tasks(app, deaths), _sources(app), _hosts(cooled), _job(app)]
    return "\n".join(["", *(line if line.startswith("What") else f"  {line}" for line in lines)])


def _tasks(app: outlast.App, deaths: int) -> list[str]:
    books, counts = app.store.event_totals(), app.tasks.counts()
    live = sum(counts[each] for each in _LIVE)
    ends = f"{books['done']} done + {books['failed']} dead + {books['cancelled']} cancelled + {live} not done yet"
    again = f" + {books['replayed']} replayed" if books["replayed"] else ""
    tried = f"{books['retried']} attempts retried, {books['deferred']} deferred, {books['lost']} lost"
    return [
        f"tasks    {books['enqueued']} enqueued{again} = {ends}",
        f"         {tried}; workers that died: {deaths}",
    ]


def _sources(app: outlast.App) -> str:
    disabled = [source.name for source in app.sources.list(state="disabled")]
    return (
        f"sources  {len(disabled)} of {len(app.sources.list())} disabled{': ' if disabled else ''}{', '.join(disabled)}"
    )


def _hosts(cooled: Iterable[str]) -> str:
    names = sorted(cooled)
    return f"hosts    {len(names)} cooled down{': ' if names else ''}{', '.join(names)}"


def _job(app: outlast.App) -> str:
    runs = app.store.runs(None, 100)
    ended = [run for run in runs if run.summary is not None]
    if not ended:
        return f"job      {len(runs)} begun, none has ended"
    told = ended[0].summary or {}
    verdict = "passed" if told["exit_code"] == 0 else "failed"
    ends = f"{told['success_targets']} success + {told['failed_targets']} failed + {told['deferred_targets']} deferred"
    return (
        f"job      {len(ended)} runs; the last one, {ended[0].id}, {verdict}: "
        f"{told['total_targets']} targets = {ends} + {told['not_attempted']} not attempted"
    )
