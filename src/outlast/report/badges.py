"""The small numbers beside the pages' names."""

from typing import NamedTuple

from outlast.ports.read_rows import FlowEvent, Pulse
from outlast.report.flow import failing, happened
from outlast.report.overview import rise
from outlast.report.words import counted

__all__ = ["Badge", "badges", "compact"]

_THOUSAND, _MILLION = 1_000, 1_000_000
_TENTHS_BELOW = 10


class Badge(NamedTuple):
    """What stands beside a page's name.

    Attributes:
        text: A short number.
        kind: ``warn``, ``bad``, ``info`` or ``mute``.
        title: The same in words.
    """

    text: str
    kind: str
    title: str


def badges(pulse: Pulse) -> dict[str, Badge]:
    """Return the badges of those pages that have something to say, by name."""
    found: dict[str, Badge] = {}
    now, before = failing(pulse.last_hour), failing(pulse.hour_before)
    if now:
        kind = "warn" if rise(now, before) else "mute"
        found["failures"] = Badge(compact(now), kind, f"{counted(now, 'failure')} in the last hour")
    if dead := pulse.counts.get("dead_letters", 0):
        kind = "bad" if happened(pulse.last_hour, FlowEvent.FAILED) else "mute"
        found["dead_letters"] = Badge(compact(dead), kind, counted(dead, "dead letter"))
    if running := pulse.counts.get("RUNNING", 0):
        found["tasks"] = Badge(compact(running), "mute", counted(running, "task runs", "tasks run"))
    if not pulse.workers and pulse.counts.get("QUEUED", 0):
        found["queues"] = Badge("!", "bad", "No worker is alive and tasks wait")
    elif pulse.paused_queues:
        said = counted(pulse.paused_queues, "queue is paused", "queues are paused")
        found["queues"] = Badge(compact(pulse.paused_queues), "warn", said)
    elif pulse.silent_workers:
        said = counted(pulse.silent_workers, "worker has gone silent", "workers have gone silent")
        found["queues"] = Badge(compact(pulse.silent_workers), "warn", said)
    if failed := pulse.sources.get("error", 0) + pulse.sources.get("warning", 0):
        kind = "bad" if pulse.sources.get("error", 0) else "warn"
        found["sources"] = Badge(compact(failed), kind, counted(failed, "source fails", "sources fail"))
    if pulse.running_jobs:
        said = counted(pulse.running_jobs, "job runs", "jobs run")
        found["jobs"] = Badge(compact(pulse.running_jobs), "info", said)
    if waits := pulse.open_breakers + pulse.cooldowns:
        said = f"{counted(pulse.cooldowns, 'cooldown')}, {counted(pulse.open_breakers, 'open breaker')}"
        found["waits"] = Badge(compact(waits), "warn", said)
    return found


def compact(number: int) -> str:
    """Return a number in at most four characters: ``7``, ``940``, ``1.2k``, ``38k``, ``2.1M``."""
    if number < _THOUSAND:
        return str(number)
    size, unit = (_THOUSAND, "k") if number < _MILLION else (_MILLION, "M")
    many = number / size
    return f"{many:.1f}{unit}" if many < _TENTHS_BELOW else f"{many:.0f}{unit}"
