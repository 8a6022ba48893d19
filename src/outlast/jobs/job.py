"""A batch job: a handler for one target, and runs over many of them."""

import asyncio
import functools
import os
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor
from importlib import import_module
from inspect import isasyncgenfunction, isgeneratorfunction, signature
from typing import Any, Protocol

from outlast import async_backends
from outlast.breaker_sync import BreakerStore, breaker_store_of, process_name, sync_breakers, sync_breakers_async
from outlast.decide.backoff import check_count
from outlast.decide.breaker import Budget
from outlast.decide.gate import Gate
from outlast.decide.policy import RetryPolicy
from outlast.errors import ConfigError
from outlast.failure import Origin
from outlast.jobs.context import JobContext, RunFacts
from outlast.jobs.job_run import JobRun, RunOptions, no_targets_error, start_in_thread
from outlast.jobs.runner import TargetRunner, run_on_loop
from outlast.jobs.summary import Summary
from outlast.jobs.tally import RunLimits, RunTally, would_decide
from outlast.jobs.target import TargetPlan, TargetResult, WouldDecide, run_attempts, run_log_keys
from outlast.jobs.target_feed import target_key
from outlast.ports.job_rows import Jobs, Run
from outlast.run.observe_mode import checked_mode
from outlast.run.retry import check_policy, is_coroutine_function
from outlast.run.signals import run_stopped_by_signals

_MAX_NAME_LENGTH = 200


def _validate_handler(handler: object) -> None:
    """Check that a job can call the handler.

    Raises:
        ConfigError: If it cannot.
    """
    if not callable(handler) or isinstance(handler, type):
        raise ConfigError(f"{handler!r} cannot be a job handler; decorate a function or a coroutine function")
    try:
        signature(handler).bind(None, None)
    except TypeError:
        raise ConfigError(
            f"{handler!r} cannot be called with two arguments; a job handler takes a context and a target"
        ) from None
    except ValueError:  # a builtin without a signature
        pass
    if isgeneratorfunction(handler) or isasyncgenfunction(handler):
        raise ConfigError(f"{handler!r} is a generator function; a job handler must process one target and return")


def _validate_policy(policy: RetryPolicy) -> RetryPolicy:
    """Return the policy.

    Raises:
        ConfigError: If it is not a policy, or has a resource.
    """
    checked = check_policy(policy)
    if checked.resource is not None:
        raise ConfigError(
            f"the policy of a job cannot have a resource ({checked.resource!r}); use it where the handler calls it"
        )
    return checked


def _validate_breakers(breakers: Mapping[str, int]) -> dict[str, int]:
    """Return the breakers by origin.

    Raises:
        ConfigError: If an origin does not exist, or a number is not valid.
    """
    for origin, number in breakers.items():
        if origin not in set(Origin):
            raise ConfigError(
                f"breakers has the key {origin!r}, which is not a valid origin; choose from: {', '.join(Origin)}"
            )
        check_count(f"the breaker of {origin}", number, 1)
    return {str(origin): number for origin, number in breakers.items()}


def _validate_text(name: str, value: object) -> str:
    """Return the value if it is a name that can be stored and shown.

    Raises:
        ConfigError: If it is not.
    """
    if isinstance(value, str) and 0 < len(value) <= _MAX_NAME_LENGTH and value.isprintable():
        return value
    raise ConfigError(f"{name} is {value!r:.100}; it must be text of 1 to {_MAX_NAME_LENGTH} characters")


_ENV = "OUTLAST_ENV"
_LAST_RUN = "last"


class Delivery(Protocol):
    """Delivers alerts to people."""

    def deliver(self) -> int:
        """Deliver the alerts that are due; return how many."""


class Job:
    """A job over targets that fail on their own. ``@app.job("items", entity="item")`` turns a function into one.

    Calling the job calls the function for one target. Two targets with the same key are two targets: both are
    processed and counted, and the ledger keeps the better of their results.

    Args:
        store: Store of the ledger; None for a job without a ledger.
        handler: Function or coroutine function of a context and a target. It may raise `SkipTarget` and `AbortJob`.
        name: Name of the job. Runs are stored and locked under it.
        entity: What kind of thing a target is. The gate may have a failure rate for it.
        gate: Decides whether a run has failed.
        policy: Attempts and waits for one target. Without `retry_on`, it retries what the classifier calls retryable.
        targets: Function that returns the targets when a run does not pass any, as from the command line.
        key: Returns the key of a target: text of at most 500 characters, or a whole number, stored as decimal text.
        breakers: By origin, such as ``s3``: a run ends when this many targets in a row have failed there with all
            retries used up.
        early_stop: Whether a run ends as soon as more targets have failed than the gate allows. It needs the total.
        budget: Retry budget of a whole run. Each run starts with a full one. It does not apply in other processes.
        hand_over: A task that gets the failed targets: ``task.enqueue(target, unique_key=…)``. The targets must be
            JSON values.
        ledger: Whether runs are recorded in the store.
        env: Environment; by default that of OUTLAST_ENV, else ``local``.
        etl: The `Etl` that the handler uses, if any; `from_raw` needs it.
        mode: ``act``, or ``observe`` to call every target once and only report what would have been done.
        keep: Seconds for which finished runs are kept; None to keep them forever.
        delivery: Delivers waiting alerts at the end of a run.

    Raises:
        ConfigError: If a setting is not valid.
    """

    def __init__(  # noqa: PLR0913  # its settings
        self,
        store: Jobs | None,
        handler: Callable[[JobContext, Any], Any],
        *,
        name: str,
        entity: str | None,
        gate: Gate,
        policy: RetryPolicy,
        targets: Callable[[], Iterable[Any]] | None = None,
        key: Callable[[Any], str | int] = target_key,
        breakers: Mapping[str, int] | None = None,
        early_stop: bool = False,
        budget: Budget | None = None,
        hand_over: Any = None,
        ledger: bool = True,
        env: str | None = None,
        etl: Any = None,
        mode: str = "act",
        keep: float | None = None,
        delivery: Delivery | None = None,
    ) -> None:
        _validate_handler(handler)
        given: object = targets
        if given is not None and not callable(given):
            raise ConfigError(f"targets is a {type(given).__name__}; it must be a function, such as lambda: [1, 2]")
        functools.update_wrapper(self, handler)
        self.store, self.handler, self.name, self.entity = store, handler, _validate_text("name", name), entity
        self.limits = RunLimits(gate, _validate_breakers(breakers or {}), early_stop, budget)
        self.policy, self.targets, self.key = _validate_policy(policy), targets, key
        self.hand_over, self.ledger = hand_over, ledger and store is not None
        self.env = _validate_text("env", env or os.environ.get(_ENV) or "local")
        self.etl, self.keep, self.mode, self.delivery = etl, keep, checked_mode(mode), delivery
        if entity is not None:
            _validate_text("entity", entity)
        if hand_over is not None and not self.ledger:
            raise ConfigError(f"{name} has hand_over=…, which needs a ledger; set ledger=True")

    @property
    def is_async(self) -> bool:
        """Whether the handler is a coroutine function."""
        return is_coroutine_function(self.handler)

    def __call__(self, context: JobContext, target: Any) -> Any:
        """Call the handler once for one target, without retries."""
        return self.handler(context, target)

    def from_raw(self) -> "Job":
        """Return a job that applies records from their raw objects again, without fetching.

        Its targets are the records that its `etl` has not applied yet, or that an older `apply_version` applied.

        Raises:
            ConfigError: If the job has no etl.
        """
        etl = self.etl
        if etl is None:
            raise ConfigError(f"{self.name} cannot run from raw objects because it has no etl; pass etl=… to the job")
        job = object.__new__(Job)
        job.__dict__.update(self.__dict__)
        job.handler = lambda context, target: etl.load_from_raw(target, context)
        job.targets, job.key = etl.outdated, str
        return job

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the job as the name of its handler.

        Raises:
            ConfigError: If the job cannot be found by that name.
        """
        name = (self.handler.__module__, self.handler.__qualname__)
        if _find_job(*name) is not self:
            raise ConfigError(
                f"{':'.join(name)} is another job; a job is sent to another process by the name of its handler"
            )
        return _find_job, name

    def run(  # noqa: PLR0913  # the options of a run
        self,
        targets: Iterable[Any] | None = None,
        *,
        concurrency: int = 8,
        executor: Executor | None = None,
        resume: str | None = None,
        only_failed: str | None = None,
        limit: int | None = None,
        dry_run: bool = False,
        progress: Callable[[RunTally], None] | None = None,
    ) -> Summary:
        """Run the job over targets and return the summary.

        Ctrl-C and SIGTERM stop the run cleanly: running targets finish, and you can resume the run. A second signal
        interrupts it. The run also ends if the ledger cannot be written for half a minute, or the job lock is lost.
        While a run in the main thread lasts, it replaces the program's own handlers of these signals and restores them
        afterwards; a signal that the program ignores stays ignored. Runs in other threads do not handle signals.

        Args:
            targets: Any iterable, read lazily in the calling thread; by default the job's own targets.
            concurrency: Targets processed at the same time: in threads, or as coroutines if the handler is one. With 1,
                they run in the calling thread.
            executor: Calls the handler in its own threads or processes, `concurrency` targets at a time.
            resume: Id of a run to continue, or ``last``. Targets with the status success or skipped are not processed
                again. Failed and deferred ones are. The summary is that of the whole run and replaces the stored one.
            only_failed: Id of a run whose failed and deferred targets are processed again, as a new run; or ``last``.
                Targets that are not JSON values are looked up by key among the targets.
            limit: Maximum number of targets, counted from the first one. In a resumed run, targets that are already
                done count too. A resumed run does not pass while targets of the run are left.
            dry_run: Whether handlers must not write anything. The run is neither recorded nor locked.
            progress: Called with the current numbers, at most every 0.1 seconds.

        Raises:
            JobLockedError: If another process is running the job.
            ConfigError: If the options are not valid together.
        """
        if self.is_async:
            _check_no_loop(self.name, executor)
        options = RunOptions(targets, resume, only_failed, limit, progress, dry_run)
        self._check_options(options, concurrency)
        run = JobRun(self, options)
        runner = run.runner
        with run_stopped_by_signals(runner), sync_breakers(self._breaker_store(options), process_name, leased=False):
            try:
                if self.is_async:
                    asyncio.run(run_on_loop(runner, concurrency))
                elif executor is not None:
                    runner.run_in_executor(executor, _TargetCall(self, run.facts, runner.plan), concurrency)
                else:
                    _run_in_threads(runner, concurrency)
            except BaseException as error:
                run.interrupt(error)
                raise
            return run.finish()

    async def run_async(
        self,
        targets: Iterable[Any] | None = None,
        *,
        concurrency: int = 8,
        resume: str | None = None,
        only_failed: str | None = None,
        limit: int | None = None,
        dry_run: bool = False,
        progress: Callable[[RunTally], None] | None = None,
    ) -> Summary:
        """Run the job like `run`, on the running asyncio event loop.

        The targets are read on the loop. A handler that is not a coroutine function runs in threads, and one of them
        reads the targets. Cancelling it interrupts the run.
        """
        options = RunOptions(targets, resume, only_failed, limit, progress, dry_run)
        self._check_options(options, concurrency)
        run = await start_in_thread(self, options)
        runner = run.runner
        with run_stopped_by_signals(runner):
            try:
                async with sync_breakers_async(self._breaker_store(options), process_name):
                    await (run_on_loop if self.is_async else _run_beside_loop)(runner, concurrency)
            except BaseException as error:
                await asyncio.shield(asyncio.to_thread(run.interrupt, error))
                raise
            return await asyncio.shield(asyncio.to_thread(run.finish))

    def _breaker_store(self, options: RunOptions) -> BreakerStore | None:
        """Return the store that shows and controls the breakers of a run; None for a run without a ledger."""
        return breaker_store_of(self.store) if self.ledger and not options.dry_run else None

    def _check_options(self, options: RunOptions, concurrency: int) -> None:
        check_count("concurrency", concurrency, 1)
        if options.limit is not None:
            check_count("limit", options.limit, 0)
        if options.resume is not None and options.only_failed is not None:
            raise ConfigError("resume continues a run and only_failed starts a new one; give one of them")
        is_new = options.resume is None and options.only_failed is None
        if is_new and options.targets is None and self.targets is None:
            raise no_targets_error(self)
        if not is_new and not self.ledger:
            raise ConfigError(f"{self.name} has no ledger, so resume and only_failed do not work")

    def found(self, run_id: str) -> Run:
        """Return a run of this job, by its id; ``last`` is the last run.

        Raises:
            ConfigError: If the job has no run with that id.
        """
        if run_id == _LAST_RUN and self.ledger:
            latest = self.kept.runs(self.name, 1)
            if latest:
                return latest[0]
            raise ConfigError(f"job {self.name} has no run yet; start one first, without resume and only_failed")
        run = self.kept.run(run_id)
        if run is None or run.job != self.name:
            known = ", ".join(each.id for each in self.kept.runs(self.name, 3)) or "none"
            raise ConfigError(f"{self.name} has no run {run_id}; the last ones are: {known}")
        return run

    @property
    def gate(self) -> Gate:
        """Decides whether a run has failed."""
        return self.limits.gate

    @property
    def judge(self) -> WouldDecide | None:
        """Decides what would be done about an error, in observe mode; None in act mode."""
        return would_decide if self.mode == "observe" else None

    @property
    def kept(self) -> Jobs:
        """The store of the ledger.

        Raises:
            ConfigError: If the job has no store.
        """
        if self.store is None:
            raise ConfigError(f"{self.name} has no ledger")
        return self.store


class _TargetCall:
    """Processes a target for an executor: with the plan of the run, or in another process with one made there."""

    def __init__(self, job: Job, facts: RunFacts, plan: TargetPlan | None = None) -> None:
        self._job, self._facts = job, facts
        self._plan = plan or TargetPlan(job.handler, job.policy, facts, keep_targets=job.ledger, judge=job.judge)

    def __reduce__(self) -> tuple[Any, ...]:
        return _TargetCall, (self._job, self._facts)

    def __call__(self, key: str, target: Any) -> TargetResult:
        with run_log_keys(self._facts) as keys:
            return run_attempts(self._plan, keys, key, target)


def _find_job(module: str, name: str) -> Job:
    """Return a job by the name of its handler."""
    try:
        found: Any = import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError):
        found = None
    if not isinstance(found, Job):
        raise ConfigError(
            f"{module}:{name} is not a job; for other processes, a job must be in a module under its own name"
        )
    return found


def _run_in_threads(runner: TargetRunner, concurrency: int) -> None:
    if concurrency == 1:
        runner.run_in_order()
    else:
        runner.run_in_threads(concurrency)


async def _run_beside_loop(runner: TargetRunner, concurrency: int) -> None:
    """Process targets in threads; if cancelled, wait until the running ones have finished."""
    work = asyncio.ensure_future(asyncio.to_thread(_run_in_threads, runner, concurrency))
    try:
        await asyncio.shield(work)
    except asyncio.CancelledError:
        runner.stopped = True
        await asyncio.wait([work])
        raise


def _check_no_loop(name: str, executor: Executor | None) -> None:
    if executor is not None:
        raise ConfigError(
            f"{name}: an executor cannot run a coroutine function; leave executor out, or use a plain function"
        )
    async_backends.check_no_event_loop("job.run_async(…)")
