"""Throughput, failure rate, durations and queue latencies of tasks, from a sample of those that have ended."""

import math
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from outlast.ports.rows import FinishedTask, Status


class Percentiles(NamedTuple):
    """Seconds that half, 95 % and 99 % of the tasks did not exceed."""

    p50: float
    p95: float
    p99: float


class TaskPerformance(NamedTuple):
    """The performance of one task.

    Attributes:
        ended: Tasks in the sample.
        per_minute: Tasks that ended per minute, estimated from their share of the sample.
        failure_rate: Share of the tasks that became dead letters.
        durations: Of their last attempts; None if no start is known.
        latencies: From when the last attempt was due to its start; None if no start is known.
    """

    task_type: str
    ended: int
    per_minute: float
    failure_rate: float
    durations: Percentiles | None
    latencies: Percentiles | None


def percentiles(seconds: Iterable[float]) -> Percentiles | None:
    """Return the percentiles of durations, by nearest rank; None without any."""
    found = sorted(seconds)
    if not found:
        return None
    return Percentiles(*(found[math.ceil(len(found) * share) - 1] for share in (0.5, 0.95, 0.99)))


def performance_by_task(sample: Sequence[FinishedTask], per_minute: float) -> list[TaskPerformance]:
    """Return the performance of each task, the most frequent first.

    Args:
        sample: Tasks that have ended.
        per_minute: How many tasks ended per minute, of which each task has its share of the sample.
    """
    by_task: dict[str, list[FinishedTask]] = {}
    for each in sample:
        by_task.setdefault(each.task_type, []).append(each)
    rows = [
        TaskPerformance(
            name,
            len(tasks),
            per_minute * len(tasks) / len(sample),
            sum(each.status is Status.FAILED for each in tasks) / len(tasks),
            percentiles(_duration(each) for each in tasks if each.started_at is not None),
            percentiles(_latency(each) for each in tasks if each.started_at is not None),
        )
        for name, tasks in by_task.items()
    ]
    return sorted(rows, key=lambda row: (-row.ended, row.task_type))


def latency_over_time(sample: Iterable[FinishedTask], steps: Sequence[datetime], step: float) -> tuple[float, ...]:
    """Return the 95th percentile of the queue latency in each step of time, in seconds; 0 without a start."""
    waits: list[list[float]] = [[] for _ in steps]
    for each in sample:
        if each.started_at is not None:
            place = int((each.started_at - steps[0]).total_seconds() // step)
            if 0 <= place < len(waits):
                waits[place].append(_latency(each))
    found = map(percentiles, waits)
    return tuple(each.p95 if each else 0.0 for each in found)


def _duration(task: FinishedTask) -> float:
    return max((task.ended_at - (task.started_at or task.ended_at)).total_seconds(), 0.0)


def _latency(task: FinishedTask) -> float:
    return max(((task.started_at or task.due_at) - task.due_at).total_seconds(), 0.0)
