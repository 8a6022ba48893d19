"""Batch jobs on a real Dask cluster: the same figures as in threads, and workers that die."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from integration import dask_jobs
from outlast.errors import ConfigError
from outlast.ports.job_rows import RunState, TargetStatus
from outlast.stores.urls import open_store

pytestmark = pytest.mark.xdist_group("dask")


def started(workers=2):
    """Start a cluster of processes on loopback, without its dashboard."""
    from distributed import LocalCluster  # here, for only one process of the test run needs it

    return LocalCluster(
        n_workers=workers,
        threads_per_worker=2,
        host="127.0.0.1",
        dashboard_address=None,
        protocol="tcp",
        silence_logs=50,
    )


@pytest.fixture(scope="module")
def client():
    import dask
    from distributed import Client

    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 1, "distributed.admin.tick.limit": "1h"}),
        started() as cluster,
        Client(cluster) as client,
    ):
        yield client


@pytest.fixture(autouse=True)
def store(tmp_path):
    """A ledger for the jobs of the module."""
    store, _ = open_store(f"sqlite:///{tmp_path}/jobs.db")
    store.create_schema()
    jobs = list(dask_jobs.app.jobs_by_name.values())
    before = [job.store for job in jobs]
    for job in jobs:
        job.store = store
    yield store
    for job, kept in zip(jobs, before, strict=True):
        job.store = kept
    store.close()


def parts(summary):
    found = (
        summary.success_targets, summary.failed_targets, summary.deferred_targets, summary.skipped_targets,
        summary.not_attempted,
    )  # fmt: skip
    assert sum(found) == summary.total_targets
    return found


def ended(store, summary):
    """What the ledger says became of the targets."""
    return {status: count for status, count in store.target_counts(summary.run_id).items() if count}


def test_a_run_comes_to_the_same_as_in_threads(client, store):
    here = dask_jobs.mixed.run(range(300), concurrency=4)
    there = dask_jobs.mixed.run(range(300), concurrency=16, executor=client.get_executor(pure=False))
    assert parts(there) == parts(here) == (180, 60, 30, 30, 0)
    assert there.state == RunState.DONE
    assert there.by_category == here.by_category == {"not_found": 30, "quota_exhausted": 30, "api_temporary": 30}
    assert there.figures == here.figures == {"calls": 300 + 30 + 30}
    assert there.attempts == here.attempts
    assert [each["size"] for each in there.groups] == [each["size"] for each in here.groups] == [30, 30, 30]
    assert ended(store, there) == ended(store, here)


def test_two_targets_of_one_key_are_two(client):
    summary = dask_jobs.mixed.run([10, 10, 10, 20], executor=client.get_executor(pure=False))
    assert parts(summary) == (4, 0, 0, 0, 0)
    assert summary.figures == {"calls": 4}


def test_the_failed_ones_are_done_again_from_the_ledger(client, store):
    first = dask_jobs.mixed.run(range(40), executor=client.get_executor(pure=False))
    again = dask_jobs.mixed.run(only_failed=first.run_id, executor=client.get_executor(pure=False))
    assert again.total_targets == first.failed_targets + first.deferred_targets == 12


def noted_targets(folder, killer):
    return [{"id": number, "folder": str(folder), "killer": killer if number == 20 else ""} for number in range(60)]


def calls(folder):
    """How often each target was called."""
    return Counter(int(each.name.split("-")[0]) for each in folder.glob("*-*-*"))


def test_what_a_dead_worker_held_is_handled_by_another(client, tmp_path):
    """Dask gives it to others by itself: at least once, and nothing is lost."""
    summary = dask_jobs.noted.run(
        noted_targets(tmp_path, "once"), concurrency=8, executor=client.get_executor(pure=False)
    )
    assert parts(summary) == (60, 0, 0, 0, 0)
    made = calls(tmp_path)
    assert set(made) == set(range(60))
    assert made[20] == 2


def test_a_target_that_takes_every_worker_down_fails_alone(client, tmp_path, store):
    summary = dask_jobs.noted.run(
        noted_targets(tmp_path, "always"), concurrency=8, executor=client.get_executor(pure=False)
    )
    assert summary.state == RunState.DONE
    assert calls(tmp_path)[20] == 2, "Dask gives up on it after as many workers as it may cost"
    failed = [
        each
        for each in store.targets(summary.run_id, statuses=[TargetStatus.FAILED])
        if each.error_type == "KilledWorker"
    ]
    assert "20" in [each.source_id for each in failed]
    assert parts(summary)[0] >= 60 - 8, "at most what was in the same hands goes with it"
    assert summary.not_attempted == 0


def test_an_abort_begins_nothing_more(client, store):
    summary = dask_jobs.refused.run(range(1, 2001), concurrency=8, executor=client.get_executor(pure=False))
    assert (summary.state, summary.exit_code) == (RunState.ABORTED, 1)
    assert parts(summary)[1] == 1
    assert summary.not_attempted > 1000
    resumed = dask_jobs.slow.run(range(3), executor=client.get_executor(pure=False))
    assert parts(resumed)[0] == 3, "the cluster is free again"


def test_a_cluster_that_goes_away_ends_the_run_and_another_one_goes_on(store):
    from distributed import Client

    with started(1) as cluster, Client(cluster) as client:
        seen = threading.Event()
        threading.Thread(target=lambda: (seen.wait(60), cluster.close()), daemon=True).start()

        def progress(tally):
            if tally.counts().success >= 20:
                seen.set()

        summary = dask_jobs.slow.run(
            range(2000), concurrency=8, executor=client.get_executor(pure=False), progress=progress
        )
    assert summary.state == RunState.ABORTED
    assert "executor" in summary.reasons[0]
    assert parts(summary)[0] >= 20
    with ThreadPoolExecutor(8) as pool:
        rest = dask_jobs.slow.run(range(2000), resume=summary.run_id, executor=pool, limit=400)
    assert rest.run_id == summary.run_id
    done = store.target_counts(rest.run_id)[TargetStatus.SUCCESS]
    assert done == max(400, parts(summary)[0]), "what was done is not done again, the rest of those is"


def test_a_job_that_no_worker_can_find_says_so(client):
    def local(context, target):
        pass

    job = dask_jobs.app.job("local", max_failure_rate=1)(local)
    try:
        with pytest.raises(ConfigError, match="must be in a module under its own name"):
            job.run(range(3), executor=client.get_executor(pure=False))
    finally:
        del dask_jobs.app.jobs_by_name["local"]
