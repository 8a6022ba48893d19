"""Runs that died: their rows say that they run, until somebody who has the lock of the job knows better."""

from outlast.ports.job_rows import Run, RunState, TargetStatus
from outlast.ports.jobs import Jobs

__all__ = ["end_the_dead"]

_LOOKED_BACK = 100  # runs of the job; who is older and seems to run was resumed, and died since


def end_the_dead(store: Jobs, job: str, resumed: str | None) -> None:
    """End the runs of a job that seem to run, with the figures that the ledger has. Only for who has its lock.

    Args:
        store: Where they are kept.
        job: Name of the job.
        resumed: The run that goes on now, if one does.
    """
    for run in store.runs(job, _LOOKED_BACK):
        if run.state is RunState.RUNNING and run.id != resumed:
            store.end_run(run.id, RunState.STOPPED, 1, _summary(store, run))


def _summary(store: Jobs, run: Run) -> dict[str, object]:
    """Return what is known of a run whose process is gone; nobody knows how long it took, nor what was left."""
    counts = store.target_counts(run.id)
    return {
        "job_id": run.job,
        "run_id": run.id,
        "entity": run.entity,
        "env": run.env,
        "state": str(RunState.STOPPED),
        "total_targets": sum(counts.values()),
        **{f"{status}_targets": counts[status] for status in TargetStatus},
        "not_attempted": 0,
        "total_is_known": False,
        "exit_code": 1,
        "duration": None,
        "reasons": ["its process died"],
    }
