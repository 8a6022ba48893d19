"""Runs that died: their rows say that they run, until somebody who has the lock of the job knows better."""

import asyncio
import functools
import hashlib
import json
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from outlast.classify import classify
from outlast.decide.breaker import Budget
from outlast.errors import ConfigError
from outlast.jobs.context import RunFacts, log, redacted_id
from outlast.jobs.ledger import Ledger, NoLedger, lock_holder, lock_job, retry_store_call
from outlast.jobs.runner import TargetRunner
from outlast.jobs.summary import Summary, make_summary, write_step_summary
from outlast.jobs.tally import ObserveTally, RunTally, actual_result
from outlast.jobs.target import TargetPlan
from outlast.jobs.target_feed import TargetFeed
from outlast.ports.job_rows import Jobs, Run, RunState, TargetDone, TargetRow, TargetStatus
from outlast.run.resources import Resource

if TYPE_CHECKING:
    from outlast.jobs.job import Job
    from outlast.ports.job_rows import JobLock


_MAX_RUNS_CHECKED = 100  # runs of the job; who is older and seems to run was resumed, and died since


def mark_crashed_runs(store: Jobs, job: str, resumed: str | None) -> None:
    """End the runs of a job that seem to run, with the figures that the ledger has. Only for who has its lock.

    Args:
        store: Where they are kept.
        job: Name of the job.
        resumed: The run that goes on now, if one does.
    """
    for run in store.runs(job, _MAX_RUNS_CHECKED):
        if run.state is RunState.RUNNING and run.id != resumed:
            store.end_run(run.id, RunState.STOPPED, 1, _crashed_run_summary(store, run))


def _crashed_run_summary(store: Jobs, run: Run) -> dict[str, object]:
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


# The rest of a run: its targets that were no success, read from the ledger page by page.

_PAGE_SIZE = 1000
_REMAINING_STATUSES = (TargetStatus.FAILED, TargetStatus.DEFERRED)


class RemainingTargets:
    """Targets of a run that failed or were put off. However many they are, one page of them is in memory.

    Args:
        store: Where the run is kept.
        run_id: Which run.
        size: How many there are.
    """

    def __init__(self, store: Jobs, run_id: str, size: int) -> None:
        """Read nothing yet."""
        self._store, self._run_id, self._size = store, run_id, size

    def __len__(self) -> int:
        """Return how many there are."""
        return self._size

    def __iter__(self) -> Iterator[Any]:
        """Read them."""
        return (json.loads(row.target or "null") for row in _remaining_rows(self._store, self._run_id))

    @classmethod
    def of(
        cls, store: Jobs, run_id: str, key: Callable[[Any], str], own: Callable[[], Iterable[Any] | None]
    ) -> Iterable[Any]:
        """Return the rest of a run: as the ledger has it, else what is found by key among the job's targets.

        Args:
            store: Where the run is kept.
            run_id: Which run.
            key: Tells one target from another.
            own: Returns the targets of the job, if they can be had.

        Raises:
            ConfigError: If neither has them.
        """
        size, complete = 0, True
        for row in _remaining_rows(store, run_id):
            size += 1
            complete = complete and row.target is not None
        if complete:
            return cls(store, run_id, size)
        given = own()
        if given is None:
            message = f"the targets of run {run_id} cannot be had from the ledger; give them, they are looked up by key"
            raise ConfigError(message)
        wanted = {row.source_id for row in _remaining_rows(store, run_id)}
        return (target for target in given if str(key(target)) in wanted)


def _remaining_rows(store: Jobs, run_id: str) -> Iterator[TargetRow]:
    after = None
    while True:
        page = store.targets(run_id, statuses=_REMAINING_STATUSES, after=after, limit=_PAGE_SIZE)
        yield from page
        if len(page) < _PAGE_SIZE:
            return
        after = page[-1].source_id


# One run of a job: its lock, its ledger, its work and its end.

_INFO, _WARNING = 20, 30
_LONGEST_UNIQUE_KEY = 200


class RunOptions:
    """What a run is told.

    Attributes:
        targets: Returns them, once the run has its lock.
        resume: The run to go on with.
        only_failed: The run whose rest is done.
        limit: How many targets at most.
        progress: Called with the figures now and then.
        dry_run: Whether nothing is written.
    """

    def __init__(  # the fields above
        self,
        targets: Callable[[], Iterable[Any]],
        *,
        resume: str | None,
        only_failed: str | None,
        limit: int | None,
        progress: Callable[[RunTally], None] | None,
        dry_run: bool,
    ) -> None:
        """Keep them."""
        self.targets, self.resume, self.only_failed = targets, resume, only_failed
        self.limit, self.progress, self.dry_run = limit, progress, dry_run


class JobRun:
    """A run from its lock to its summary.

    Attributes:
        facts: What its targets share.
        running: Handles them.
    """

    def __init__(self, job: "Job", told: RunOptions) -> None:
        """Take the lock, and write down that the run begins."""
        self._job = job
        self._previous: str | None = None
        kept = job.ledger and not told.dry_run
        self._lock: JobLock | None = lock_job(job.kept, job.name) if kept else None
        try:
            self._began = time.monotonic()
            run_id = told.resume or f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:6]}"
            self.facts = RunFacts(job.name, run_id, job.env, datetime.now(UTC), job.entity, dry_run=told.dry_run)
            if self._lock is not None:
                self._tidy(told)
            self._feed = TargetFeed(told.targets(), job.key, _done_lookup(job, told.resume), told.limit)
            self._tally = _make_tally(job, self._feed.total)
            self._ledger = NoLedger()
            if self._lock is not None:
                self._ledger = Ledger(job.kept, run_id, self._lock, _hand_over(job))
                self._open(told)
            plan = TargetPlan.apart(
                job.handler, job.policy, self.facts, _retry_budget(job), keep_targets=kept, judge=job.judge
            )
            self.running = TargetRunner(plan, self._feed, self._tally, self._ledger, told.progress)
            with suppress(Exception):  # a handler of logs that raises must not end the job
                log.info("%s %s begins", job.name, run_id, extra=self.facts.keys())
        except BaseException:
            self._release()
            raise

    def _tidy(self, told: RunOptions) -> None:
        """End runs that died, and delete old ones: before the targets are read, for an old run may have them."""
        job = self._job
        mark_crashed_runs(job.kept, job.name, told.resume)
        if job.keep is not None and told.resume is None:
            job.kept.prune_runs(job.keep)

    def _open(self, told: RunOptions) -> None:
        job, store = self._job, self._job.kept
        if told.resume is not None:
            store.reopen_run(told.resume)
            return
        previous = [run.id for run in store.runs(job.name, 1)]
        self._previous = told.only_failed or (previous[0] if previous else None)
        rest = store.run(told.only_failed) if told.only_failed is not None else None
        if rest is not None and rest.summary is not None and rest.summary.get("not_attempted"):
            log.warning(
                "run %s left %d targets unattempted, which are no part of this one; to go on with it: resume=…",
                rest.id,
                rest.summary["not_attempted"],
                extra=self.facts.keys(),
            )
        store.add_run(self.facts.run_id, job.name, job.entity, job.env, told.only_failed)

    def finished(self) -> Summary:
        """End the run; return its summary.

        Raises:
            BaseException: What ended it that no handler should raise, such as SystemExit.
        """
        broken = self.running.broken
        if broken is not None:
            self.interrupted(broken)
            raise broken
        try:
            return self._finish_summary()
        finally:
            self._release()

    def interrupted(self, error: BaseException) -> None:
        """End the run where its work was interrupted: what was done counts, and the rest was not attempted."""
        self.running.abort(f"ended by {type(error).__name__}")
        self._ledger.stop_waiting()
        try:
            with suppress(Exception):  # the error at hand matters more
                self._finish_summary()
        finally:
            self._release()

    def _finish_summary(self) -> Summary:
        compared = None
        try:
            self._ledger.flush()
            if self._previous is not None:
                compared = self._job.kept.compare_runs(self._previous, self.facts.run_id)
        except Exception as error:  # noqa: BLE001  # whatever a database raises; the figures are told nevertheless
            self.running.abort(f"the ledger cannot be written: {classify(error)}")
        summary, state = self._summary(compared)
        try:
            self._end(summary, state)
        except Exception as error:  # noqa: BLE001  # the same
            why = f"the end of the run cannot be written: {classify(error)}"[:500]
            summary = replace(summary, exit_code=1, reasons=(*summary.reasons, why))
        with suppress(Exception):  # a handler of logs that raises must not hide the verdict
            level = _WARNING if summary.exit_code else _INFO
            log.log(level, "%s", summary, extra={**self.facts.keys(), "summary": summary.to_dict()})
        write_step_summary(summary)
        return summary

    def _summary(self, compared: dict[str, int] | None) -> tuple[Summary, RunState]:
        tally, feed, job = self._tally, self._feed, self._job
        counts = tally.counts(feed.known)
        is_known = feed.is_over or feed.total is not None
        state, ended = RunState.DONE, None
        if tally.abort is not None:
            state, ended = RunState.ABORTED, f"aborted: {tally.abort}"
        elif counts.not_attempted or not is_known:
            state, ended = RunState.STOPPED, "stopped before its end"
        would: dict[str, Any] = {}
        if isinstance(tally, ObserveTally):
            code, lines = tally.told(counts, job.gate)
            would = {"would_do": dict(tally.would_do), "would_exit_code": code, "would": lines}
            counts, verdict = actual_result(counts, ended)
        else:
            verdict = job.gate.judge(counts, ended=ended)
        facts = {"job_id": job.name, "run_id": self.facts.run_id, "entity": job.entity, "env": job.env}
        duration = time.monotonic() - self._began
        summary = make_summary(
            facts, tally, counts, verdict, str(state), duration, total_is_known=is_known, compared=compared
        )
        return replace(summary, **would), state

    def _end(self, summary: Summary, state: RunState) -> None:
        """Write the end of the run down, unless somebody else has the job by now: the run may be theirs."""
        lock = self._lock
        if lock is None:
            return
        if not lock.held():
            self._release()
            self._lock = self._job.kept.lock_job(self._job.name, lock_holder())
        if self._lock is None:
            log.warning("%s %s is left as it is: somebody else runs the job", self.facts.job_id, self.facts.run_id)
            return
        self._ledger.end(state, summary.exit_code, summary.to_dict())

    def _release(self) -> None:
        lock, self._lock = self._lock, None
        if lock is not None:
            with suppress(Exception):  # the verdict matters more; a process that ends lets go of it anyway
                lock.release()


class JobRunStarter:
    """A run that begins in a thread, while whoever wants it may be cancelled: then it is undone, by who sees it last.

    Args:
        job: What runs.
        told: What the run is told.
    """

    def __init__(self, job: "Job", told: RunOptions) -> None:
        """Begin nothing yet."""
        self._job, self._told = job, told
        self._lock = threading.Lock()
        self._begun: JobRun | None = None
        self._is_wanted = True

    async def begun(self) -> JobRun:
        """Return the run, once it has begun."""
        try:
            return await asyncio.to_thread(self._begin)
        except asyncio.CancelledError as error:
            with self._lock:
                self._is_wanted = False
            if self._begun is not None:
                self._begun.interrupted(error)
            raise

    def _begin(self) -> JobRun:
        begun = JobRun(self._job, self._told)
        with self._lock:
            if self._is_wanted:
                self._begun = begun
                return begun
        begun.interrupted(asyncio.CancelledError())
        return begun  # to nobody


def _make_tally(job: "Job", total: int | None) -> RunTally:
    if job.mode == "observe":
        return ObserveTally(job.name, job.gate, job.breakers, early_stop=job.early_stop, total=total)
    return RunTally(job.gate, job.breakers, early_stop=job.early_stop, total=total)


def _retry_budget(job: "Job") -> Resource | None:
    if job.budget is None:
        return None
    return Resource(
        f"job {job.name}", budget=Budget(job.budget.capacity, job.budget.per_second)
    )  # each run begins full


def _done_lookup(job: "Job", run_id: str | None) -> Callable[[Sequence[str]], set[str]] | None:
    """Return what says of targets which are done in a run."""
    if run_id is None:
        return None

    def done(keys: Sequence[str]) -> set[str]:
        found: set[str] = retry_store_call(functools.partial(job.kept.done_targets, run_id, keys))
        return found

    return done


def _hand_over(job: "Job") -> Callable[[Sequence[TargetDone]], None] | None:
    """Return what gives failed targets to a task, where there is one; the unique key keeps a second time from harm."""
    task = job.hand_over
    if task is None or job.mode == "observe":
        return None

    def give(rows: Sequence[TargetDone]) -> None:
        for row in rows:
            if row.status is not TargetStatus.FAILED:
                continue
            try:
                if row.target is None:
                    message = "it has no form in JSON"
                    raise ValueError(message)
                task.enqueue(json.loads(row.target), unique_key=_unique_key(job.name, row.source_id))
            except Exception as error:
                failure = classify(error)
                if failure.retryable:
                    raise  # the store is down; all of them are given once more
                log.error("%s %s cannot be given to %s: %s", job.name, redacted_id(row.source_id), task.name, failure)

    return give


def _unique_key(job: str, source_id: str) -> str:
    key = f"{job}:{source_id}"
    if len(key) <= _LONGEST_UNIQUE_KEY:
        return key
    return f"{job[:100]}:{hashlib.sha256(key.encode()).hexdigest()}"
