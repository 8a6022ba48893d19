"""One run of a job, from its lock to its summary; and what is left of earlier runs."""

import asyncio
import hashlib
import json
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from outlast.classify import classify
from outlast.decide.breaker import Budget
from outlast.decide.gate import count_targets
from outlast.errors import ConfigError
from outlast.jobs.context import RunFacts, log, redacted_id
from outlast.jobs.ledger import Ledger, LockLostError, NoLedger, lock_holder, lock_job, retry_store_call
from outlast.jobs.runner import TargetRunner
from outlast.jobs.summary import Summary, make_summary, write_step_summary
from outlast.jobs.tally import ObserveTally, RunTally, actual_result
from outlast.jobs.target import TargetPlan
from outlast.jobs.target_feed import TargetFeed, id_text
from outlast.ports.job_rows import REMAINING, JobLock, Jobs, Run, RunState, TargetDone, TargetRow, TargetStatus
from outlast.ports.source_rows import NewAlert
from outlast.run.resources import Resource

if TYPE_CHECKING:
    from outlast.jobs.job import Job


_MAX_RUNS_CHECKED = 100  # an older run can only be running if it was resumed


def _mark_crashed_runs(store: Jobs, job: str, resumed: str | None) -> None:
    """End the runs that are still marked as running, with the numbers from the ledger. The caller must hold the lock.

    Args:
        store: Store of the ledger.
        job: Name of the job.
        resumed: Id of the run that continues now, if any.
    """
    for run in store.runs(job, _MAX_RUNS_CHECKED):
        if run.state is RunState.RUNNING and run.id != resumed:
            store.end_run(run.id, RunState.STOPPED, 1, _crashed_run_summary(store, run))


def _crashed_run_summary(store: Jobs, run: Run) -> dict[str, object]:
    """Return the summary of a crashed run; its duration and the number of targets left are unknown."""
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


_PAGE_SIZE = 1000


@dataclass(frozen=True)
class _RemainingTargets:
    """The failed and deferred targets of a run, read from the ledger page by page.

    Attributes:
        store: Store of the ledger.
        run_id: Id of the run.
        size: Number of targets.
    """

    store: Jobs
    run_id: str
    size: int

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[Any]:
        return (json.loads(row.target or "null") for row in _remaining_rows(self.store, self.run_id))


def _remaining_targets(
    store: Jobs, run_id: str, key: Callable[[Any], str | int], all_targets: Callable[[], Iterable[Any] | None]
) -> Iterable[Any]:
    """Return the failed and deferred targets of a run: from the ledger, else by key from the targets of the job.

    Args:
        store: Store of the ledger.
        run_id: Id of the run.
        key: Returns the key of a target.
        all_targets: Returns the targets of the job, or None if it has none.

    Raises:
        ConfigError: If the ledger does not have them and the job has no targets.
    """
    size, complete = 0, True
    for row in _remaining_rows(store, run_id):
        size += 1
        complete = complete and row.target is not None
    if complete:
        return _RemainingTargets(store, run_id, size)
    targets = all_targets()
    if targets is None:
        raise ConfigError(
            f"the ledger does not have all targets of run {run_id}; pass the targets, they are looked up by key"
        )
    wanted = {row.source_id for row in _remaining_rows(store, run_id)}
    return (target for target in targets if id_text(key(target)) in wanted)


def _remaining_rows(store: Jobs, run_id: str) -> Iterator[TargetRow]:
    after = None
    while True:
        page = store.targets(run_id, statuses=tuple(REMAINING), after=after, limit=_PAGE_SIZE)
        yield from page
        if len(page) < _PAGE_SIZE:
            return
        after = page[-1].source_id


_INFO, _WARNING = 20, 30
_MAX_UNIQUE_KEY_LENGTH = 200


@dataclass(frozen=True)
class RunOptions:
    """The options of a run.

    Attributes:
        targets: The targets that were passed, if any.
        resume: Id of the run to continue.
        only_failed: Id of the run whose failed and deferred targets are processed.
        limit: Maximum number of targets.
        progress: Called with the current numbers, at most every 0.1 seconds.
        dry_run: Whether nothing is written.
    """

    targets: Iterable[Any] | None
    resume: str | None
    only_failed: str | None
    limit: int | None
    progress: Callable[[RunTally], None] | None
    dry_run: bool


class JobRun:
    """A run from its lock to its summary. Creating it takes the lock and records the start.

    Attributes:
        facts: The facts that all targets share.
        runner: Processes the targets.
    """

    def __init__(self, job: "Job", options: RunOptions) -> None:
        self._job = job
        self._previous: str | None = None
        self._earlier: dict[str, Any] | None = None  # the last summary of the run that is resumed
        self._unattempted: tuple[int, bool] | None = None  # in a resumed run, once counted
        self._interrupted = False
        has_ledger = job.ledger and not options.dry_run
        self._lock: JobLock | None = lock_job(job.kept, job.name) if has_ledger else None
        try:
            self._began = time.monotonic()
            options = _find_runs(job, options)
            run_id = options.resume or f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:6]}"
            self.facts = RunFacts(job.name, run_id, job.env, datetime.now(UTC), job.entity, dry_run=options.dry_run)
            if self._lock is not None:
                self._clean_up(options)
                self._earlier = (job.found(run_id).summary or {}) if options.resume is not None else None
            self._limit = _run_limit(options.limit, self._earlier)
            self._feed = TargetFeed(
                _targets_of(job, options), job.key, _done_lookup(job, options.resume), options.limit
            )
            self._tally = (
                ObserveTally(job.name, job.limits, self._feed.total)
                if job.mode == "observe"
                else RunTally(job.limits, self._feed.total)
            )
            self._ledger = NoLedger()
            if self._lock is not None:
                self._ledger = Ledger(job.kept, run_id, self._lock, _failed_target_sender(job))
                self._record_start(options)
            plan = TargetPlan(
                job.handler, job.policy, self.facts, _retry_budget(job), keep_targets=has_ledger, judge=job.judge
            )
            self.runner = TargetRunner(plan, self._feed, self._tally, self._ledger, options.progress)
            with suppress(Exception):  # a logging handler that raises must not end the job
                log.info("%s %s starts", job.name, run_id, extra=self.facts.keys())
        except BaseException:
            self._release()
            raise

    def _clean_up(self, options: RunOptions) -> None:
        """End crashed runs and delete old ones; before the targets are read, because they may come from an old run."""
        job = self._job
        _mark_crashed_runs(job.kept, job.name, options.resume)
        if job.keep is not None and options.resume is None:
            job.kept.prune_runs(job.keep)

    def _record_start(self, options: RunOptions) -> None:
        job, store = self._job, self._job.kept
        if options.resume is not None:
            store.reopen_run(options.resume)
            return
        previous = [run.id for run in store.runs(job.name, 1)]
        self._previous = options.only_failed or (previous[0] if previous else None)
        parent = store.run(options.only_failed) if options.only_failed is not None else None
        if parent is not None and parent.summary is not None and parent.summary.get("not_attempted"):
            log.warning(
                "run %s did not attempt %s, which this run does not include; to continue that run: resume=…",
                parent.id,
                count_targets(parent.summary["not_attempted"]),
                extra=self.facts.keys(),
            )
        store.add_run(self.facts.run_id, job.name, job.entity, job.env, options.only_failed)

    def finish(self) -> Summary:
        """End the run and return its summary.

        Raises:
            BaseException: What ended the run although no handler should raise it, such as SystemExit.
        """
        broken = self.runner.broken
        if broken is not None:
            self.interrupt(broken)
            raise broken
        try:
            summary = self._finish_summary()
        finally:
            self._release()
        self._deliver_alerts()
        return summary

    def interrupt(self, error: BaseException) -> None:
        """End an interrupted run: finished targets count, the others are not attempted."""
        self._interrupted = True
        self.runner.abort(f"ended by {type(error).__name__}")
        self._ledger.stop_waiting()
        try:
            with suppress(Exception):  # the interruption matters more
                self._finish_summary()
        finally:
            self._release()

    def _finish_summary(self) -> Summary:
        compared = None
        try:
            self._ledger.flush()
            self._ledger.check_lock()
            if self._earlier is not None:
                self._unattempted = self._count_whole_run(self._earlier)
            if self._previous is not None:
                compared = self._job.kept.compare_runs(self._previous, self.facts.run_id)
        except LockLostError as error:
            self.runner.abort(str(error))
        except Exception as error:  # noqa: BLE001  # the summary is returned without the ledger
            self.runner.abort(f"the ledger cannot be written: {classify(error)}")
        summary, state = self._summary(compared)
        try:
            self._record_end(summary, state)
        except Exception as error:  # noqa: BLE001  # the same
            why = f"the end of the run cannot be written: {classify(error)}"[:500]
            summary = replace(summary, exit_code=1, reasons=(*summary.reasons, why))
        with suppress(Exception):  # a logging handler that raises must not hide the result
            level = _WARNING if summary.exit_code else _INFO
            log.log(level, "%s", summary, extra={**self.facts.keys(), "summary": summary.to_dict()})
        write_step_summary(summary)
        return summary

    def _count_whole_run(self, earlier: dict[str, Any]) -> tuple[int, bool]:
        """Replace the numbers of this process by those of the whole run, from the ledger and the earlier summary.

        Returns:
            The number of targets that are left, and whether all targets are known.
        """
        tally, feed, store, run_id = self._tally, self._feed, self._job.kept, self.facts.run_id
        known, is_known = feed.known, feed.is_over or feed.total is not None
        if feed.limit != self._limit and feed.limit is not None:  # it may exclude targets of the run
            if feed.size is not None:
                known = feed.size if self._limit is None else min(feed.size, self._limit)
            else:
                is_known = feed.read < feed.limit
        left = max(0, known - tally.counts().total)
        counts = store.target_counts(run_id)
        recorded = sum(counts.values())
        if not self.runner.stopped and _is_complete(known, recorded, earlier):
            left, is_known = 0, True
        elif left:  # some of those that were not reached this time may be done
            left = min(left, max(1, max(known, earlier.get("total_targets", 0)) - recorded))
        tally.load(counts, _remaining_rows(store, run_id), earlier)
        return left, is_known

    def _summary(self, compared: dict[str, int] | None) -> tuple[Summary, RunState]:
        tally, feed, job = self._tally, self._feed, self._job
        left, is_known = self._unattempted or (
            max(0, feed.known - tally.counts().total),
            feed.is_over or feed.total is not None,
        )
        counts = tally.counts(left)
        state, ended = RunState.DONE, None
        if tally.abort is not None:
            state, ended = RunState.ABORTED, f"aborted: {tally.abort}"
        elif counts.not_attempted or not is_known:
            state, ended = RunState.STOPPED, self._stop_reason(left)
        would: dict[str, Any] = {}
        if isinstance(tally, ObserveTally):
            code, lines = tally.would_result(counts)
            would = {"would_do": dict(tally.would_do), "would_exit_code": code, "would": lines}
            counts, result = actual_result(counts, ended)
        else:
            result = job.limits.gate.judge(counts, ended=ended)
        facts = {"job_id": job.name, "run_id": self.facts.run_id, "entity": job.entity, "env": job.env}
        duration = time.monotonic() - self._began + ((self._earlier or {}).get("duration") or 0.0)
        summary = make_summary(
            facts, tally, counts, result, str(state), duration, total_is_known=is_known, compared=compared
        )
        return replace(summary, limit=self._limit, **would), state

    def _stop_reason(self, left: int) -> str:
        """Return why the run ended although targets are left: the limit of a resumed run, or a stop."""
        feed = self._feed
        if self.runner.stopped or not feed.is_over or feed.limit is None or feed.limit == self._limit:
            return "stopped before its end"
        return f"limited to {count_targets(feed.limit)}; {left or 'more may be'} left"

    def _record_end(self, summary: Summary, state: RunState) -> None:
        """Record the end of the run, unless another process has the lock: it may have resumed this run."""
        lock = self._lock
        if lock is None:
            return
        if not lock.held():
            self._release()
            self._lock = self._job.kept.lock_job(self._job.name, lock_holder())
        if self._lock is None:
            log.warning(
                "%s %s: the end is not recorded, because another process runs the job",
                self.facts.job_id,
                self.facts.run_id,
            )
            return
        self._ledger.end(state, summary.exit_code, summary.to_dict(), self._alerts(summary, state))

    def _alerts(self, summary: Summary, state: RunState) -> list[NewAlert]:
        """Return the alert about a failed run, or about one that passed.

        A stopped run says nothing about the job, and one that passed without an attempt is no recovery.
        """
        if state is RunState.STOPPED or self._interrupted or self._job.mode == "observe":
            return []
        key, name = f"job:{summary.job_id}", f"job {summary.job_id}"
        if summary.exit_code == 0:
            has_worked = summary.attempts or summary.success_targets  # a killed process leaves results, but no attempts
            return [NewAlert(key, None, f"{name}: run {summary.run_id} passed")] if has_worked else []
        return [NewAlert(key, "failed", f"{name} failed: {', '.join(summary.reasons)}", str(summary))]

    def _deliver_alerts(self) -> None:
        """Deliver the alerts that wait. If that fails, they stay in the outbox."""
        if self._job.delivery is not None and self._job.ledger and not self.facts.dry_run:
            try:
                self._job.delivery.deliver()
            except Exception as error:  # noqa: BLE001  # see above
                log.error("could not deliver alerts: %s", classify(error))

    def _release(self) -> None:
        lock, self._lock = self._lock, None
        if lock is not None:
            with suppress(Exception):  # the summary matters more; the lock goes when the process ends
                lock.release()


async def start_in_thread(job: "Job", options: RunOptions) -> JobRun:
    """Return a run that was started in a thread. If the caller is cancelled meanwhile, the run is interrupted, once."""
    lock, is_wanted = threading.Lock(), True
    started: list[JobRun] = []

    def start() -> JobRun:
        run = JobRun(job, options)
        with lock:
            if is_wanted:
                started.append(run)
                return run
        run.interrupt(asyncio.CancelledError())
        return run  # nobody awaits it any more

    try:
        return await asyncio.to_thread(start)
    except asyncio.CancelledError as error:
        with lock:
            is_wanted = False
        for run in started:
            run.interrupt(error)
        raise


def _find_runs(job: "Job", options: RunOptions) -> RunOptions:
    """Return the options with the ids of existing runs: ``last`` is the last run of the job."""
    resume, only_failed = (each and job.found(each).id for each in (options.resume, options.only_failed))
    return replace(options, resume=resume, only_failed=only_failed)


def _run_limit(given: int | None, earlier: dict[str, Any] | None) -> int | None:
    """Return the limit of a whole run: a resumed run keeps the limit of its start, unless the new one is higher."""
    if given is None or earlier is None:
        return given
    return max(earlier["limit"], given) if earlier.get("limit") is not None else None


def _is_complete(known: int, recorded: int, earlier: dict[str, Any]) -> bool:
    """Return whether all targets of a resumed run are in the ledger, although this process did not read all of them.

    Args:
        known: Number of targets that this process knows.
        recorded: Number of targets in the ledger. Two targets with the same key are one.
        earlier: The last summary of the run.
    """
    total: int = earlier.get("total_targets", 0)
    if known > total or not earlier.get("total_is_known"):
        return False
    was_done: bool = earlier.get("state") == RunState.DONE
    return recorded == total or (was_done and recorded < total)


def no_targets_error(job: "Job") -> ConfigError:
    """Return the error of a run without targets."""
    return ConfigError(f"{job.name} has no targets; pass them to run(…), or targets=… to the job")


def _targets_of(job: "Job", options: RunOptions) -> Iterable[Any]:
    """Return the targets of a run; a resumed run with a parent has the remaining targets of that parent.

    Raises:
        ConfigError: If there are none, or an earlier run does not exist.
    """
    parent = options.only_failed
    if parent is not None:
        job.found(parent)  # again: the clean-up may have deleted it
    elif options.resume is not None:
        parent = job.found(options.resume).parent
        if parent is not None and job.kept.run(parent) is None:
            raise ConfigError(
                f"{options.resume} retries the failed targets of {parent}, which was deleted; start a new run"
            )

    def all_targets() -> Iterable[Any] | None:
        if options.targets is not None or job.targets is None:
            return options.targets
        return job.targets()

    found = all_targets() if parent is None else _remaining_targets(job.kept, parent, job.key, all_targets)
    if found is None:
        raise no_targets_error(job)
    return found


def _retry_budget(job: "Job") -> Resource | None:
    budget = job.limits.budget
    if budget is None:
        return None
    # a new budget, so that each run starts with a full one
    return Resource(f"job {job.name}", budget=Budget(budget.capacity, budget.per_second))


def _done_lookup(job: "Job", run_id: str | None) -> Callable[[Sequence[str]], set[str]] | None:
    """Return a function that returns which of some keys are done in a run; None for a new run."""
    if run_id is None:
        return None

    return lambda keys: retry_store_call(lambda: job.kept.done_targets(run_id, keys))


def _failed_target_sender(job: "Job") -> Callable[[Sequence[TargetDone]], None] | None:
    """Return a function that enqueues failed targets for the job's `hand_over` task; None if it has none.

    It may get the same rows again: the unique key prevents a second task.
    """
    task = job.hand_over
    if task is None or job.mode == "observe":
        return None

    def send(rows: Sequence[TargetDone]) -> None:
        for row in rows:
            if row.status is not TargetStatus.FAILED:
                continue
            try:
                if row.target is None:
                    raise ValueError("the target is not a JSON value")
                task.enqueue(json.loads(row.target), unique_key=_unique_key(job.name, row.source_id))
            except Exception as error:
                failure = classify(error)
                if failure.retryable:
                    raise  # the store is down; all rows are sent again
                log.error(
                    "%s %s cannot be handed over to %s: %s", job.name, redacted_id(row.source_id), task.name, failure
                )

    return send


def _unique_key(job: str, source_id: str) -> str:
    key = f"{job}:{source_id}"
    if len(key) <= _MAX_UNIQUE_KEY_LENGTH:
        return key
    return f"{job[:100]}:{hashlib.sha256(key.encode()).hexdigest()}"
