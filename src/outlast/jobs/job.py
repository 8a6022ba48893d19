"""A batch job: a handler for one target, and runs over many of them."""

import asyncio
import functools
import os
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor
from importlib import import_module
from inspect import isasyncgenfunction, isgeneratorfunction, signature
from typing import Any

from outlast.breaker_sync import BreakerStore, breaker_store_of, process_name, sync_breakers, sync_breakers_async
from outlast.decide.breaker import Budget
from outlast.decide.gate import Gate
from outlast.decide.policy import RetryPolicy
from outlast.errors import ConfigError
from outlast.failure import RETRYABLE, Origin
from outlast.jobs.context import JobContext, RunFacts
from outlast.jobs.job_run import JobRun, JobRunStarter, RemainingTargets, RunOptions
from outlast.jobs.runner import AsyncTargetRunner, TargetRunner
from outlast.jobs.summary import Summary
from outlast.jobs.tally import RunTally, would_decide
from outlast.jobs.target import TargetPlan, TargetResult, WouldDecide, run_attempts, run_log_keys
from outlast.jobs.target_feed import target_key
from outlast.ports.job_rows import Jobs, Run
from outlast.run.observe_mode import checked_mode
from outlast.run.retry import check_policy, is_coroutine_function
from outlast.run.signals import run_stopped_by_signals

# The settings of a job, checked before anything runs.

_LONGEST_NAME = 200


def validate_handler(handler: object) -> None:
    """See that something can handle targets.

    Raises:
        ConfigError: If it is not so.
    """
    if not callable(handler) or isinstance(handler, type):
        message = f"{handler!r} cannot be a job; decorate a function or a coroutine function"
        raise ConfigError(message)
    try:
        signature(handler).bind(None, None)
    except TypeError:
        message = f"{handler!r} cannot be called with a context and a target, which every job is"
        raise ConfigError(message) from None
    except ValueError:  # a builtin that does not tell
        pass
    if isgeneratorfunction(handler) or isasyncgenfunction(handler):
        message = f"{handler!r} is a generator, which nobody would run; a job handles one target and returns"
        raise ConfigError(message)


def validate_policy(policy: RetryPolicy) -> RetryPolicy:
    """Return a policy as jobs use it: without a word on what is retried, it is what the classifier calls retryable.

    Raises:
        ConfigError: If it is not so.
    """
    chosen = check_policy(policy)
    if chosen.resource is not None:
        message = f"a job does not know the resource {chosen.resource!r} of its policy; name it where it is called"
        raise ConfigError(message)
    return chosen.replace(retry_on=RETRYABLE) if chosen.retry_on is None else chosen


def validate_breakers(given: Mapping[str, int]) -> dict[str, int]:
    """Return breakers whose origins exist.

    Raises:
        ConfigError: If it is not so.
    """
    for origin, number in given.items():
        if origin not in set(Origin):
            message = f"breakers names {origin!r}, which is no origin; choose from: {', '.join(Origin)}"
            raise ConfigError(message)
        validate_number(f"the breaker of {origin}", number, 1)
    return {str(origin): number for origin, number in given.items()}


def validate_targets(targets: object) -> None:
    """See that targets can be asked for.

    Raises:
        ConfigError: If it is not so.
    """
    if targets is not None and not callable(targets):
        message = f"targets is a {type(targets).__name__}; give a function that returns them, such as lambda: [1, 2]"
        raise ConfigError(message)


def validate_number(name: str, value: object, least: int) -> None:
    """See that a number can be used.

    Raises:
        ConfigError: If it is not so.
    """
    if type(value) is not int or value < least:
        message = f"{name} is {value!r}; give a whole number, {least} or more"
        raise ConfigError(message)


def validate_text(name: str, value: object) -> str:
    """Return a name that can be stored and shown.

    Raises:
        ConfigError: If it is not so.
    """
    if isinstance(value, str) and 0 < len(value) <= _LONGEST_NAME and value.isprintable():
        return value
    message = f"{name} is {value!r:.100}; give text of 1 to {_LONGEST_NAME} characters"
    raise ConfigError(message)


_ENV = "OUTLAST_ENV"


class Job:
    """A job over targets that fail alone. ``@app.job("items", entity="item")`` makes one of a function.

    Called, it handles one target as the function would. Two targets of one key are two targets: both are handled and
    counted; the ledger keeps the better of their results.

    Args:
        store: Where the ledger is kept; None for none.
        handler: Function or coroutine function of a context and a target. It may raise `SkipTarget` and `AbortJob`.
        name: By which runs are kept, and locked.
        entity: What the targets are; it may tell the failure rate.
        gate: Says when a run has failed.
        policy: Attempts and waits for one target. Where it does not say what is retried, it is what the classifier
            calls retryable.
        targets: Function that returns the targets, for who runs the job by its name.
        key: Tells one target from another; text of at most 500 characters.
        breakers: By origin, such as ``s3``: so many targets in a row that failed there, though they were tried again,
            end the run.
        early_stop: Whether a run ends as soon as more targets have failed than may; that needs the total.
        budget: Retries that a whole run may make; each run begins with all of them. In other processes it does not
            count.
        hand_over: A task, to which targets that failed are given: ``task.enqueue(target, unique_key=…)``. They need a
            form in JSON.
        ledger: Whether runs are written down.
        env: Where it runs; by default what OUTLAST_ENV says, else ``local``.
        etl: The `Etl` that its handler uses, where it does; `from_raw` needs it.
        mode: ``act``, or ``observe`` to call every target once and only tell what would have been done.
        keep: Seconds for which runs that are over are kept; None for ever.

    Raises:
        ConfigError: If a setting cannot be used.
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
        key: Callable[[Any], str] = target_key,
        breakers: Mapping[str, int] | None = None,
        early_stop: bool = False,
        budget: Budget | None = None,
        hand_over: Any = None,
        ledger: bool = True,
        env: str | None = None,
        etl: Any = None,
        mode: str = "act",
        keep: float | None = None,
    ) -> None:
        """Check and keep the settings."""
        validate_handler(handler)
        validate_targets(targets)
        functools.update_wrapper(self, handler)
        self.store, self.handler, self.name, self.entity = store, handler, validate_text("name", name), entity
        self.gate, self.policy, self.targets, self.key = gate, validate_policy(policy), targets, key
        self.breakers, self.early_stop, self.budget = validate_breakers(breakers or {}), early_stop, budget
        self.hand_over, self.ledger = hand_over, ledger and store is not None
        self.env = validate_text("env", env or os.environ.get(_ENV) or "local")
        self.is_async = is_coroutine_function(handler)
        self.etl, self.keep, self.mode = etl, keep, checked_mode(mode)
        if entity is not None:
            validate_text("entity", entity)
        if hand_over is not None and not self.ledger:
            message = f"{name} hands targets over as it writes them down; it needs ledger=True"
            raise ConfigError(message)

    def __call__(self, context: JobContext, target: Any) -> Any:
        """Handle one target, once, as the function itself would."""
        return self.handler(context, target)

    def from_raw(self) -> "Job":
        """Return the job that applies records again from their raw objects, without fetching.

        Its targets are those that its `etl` has not applied yet, or by an older version.

        Raises:
            ConfigError: If the job has no etl.
        """
        etl = self.etl
        if etl is None:
            message = f"{self.name} cannot be run from raw objects: it has no etl=…"
            raise ConfigError(message)
        again = object.__new__(Job)
        again.__dict__.update(self.__dict__)
        again.handler, again.is_async = lambda context, target: etl.load_from_raw(target, context), False
        again.targets, again.key = etl.outdated, str
        return again

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel to another process by name.

        Raises:
            ConfigError: If it cannot be found by its name.
        """
        name = (self.handler.__module__, self.handler.__qualname__)
        if _find_job(*name) is not self:
            message = f"{':'.join(name)} is another job; a job travels to another process by its name"
            raise ConfigError(message)
        return _find_job, name

    def run(  # noqa: PLR0913  # what a run is told
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
        """Run the job over targets, and say how it went.

        Ctrl-C and SIGTERM end it cleanly: targets that run may finish, and the run can be resumed. A second one
        interrupts it. If the ledger cannot be written for half a minute, or its lock is lost, the run ends too.
        Handlers of these signals that the program has set are not called while a run in the main thread lasts, and are
        put back after it; a signal that the program ignores stays ignored. In other threads signals are left alone.

        Args:
            targets: Any iterable, read in the calling thread as far as it is needed; by default the job's own.
            concurrency: Targets at once: in threads, or coroutines where the handler is one. 1 handles them in the
                calling thread.
            executor: Has the handler called elsewhere; so many targets as `concurrency` are in its hands.
            resume: Number of a run to go on with: what it has done is skipped.
            only_failed: Number of a run whose failed and deferred targets are done again, in a run of their own. Those
                without a form in JSON are looked up by key among the targets.
            limit: How many targets at most, counting those that are skipped.
            dry_run: Whether handlers are told to write nothing; the run is not written down either, nor locked.
            progress: Called with the figures now and then.

        Raises:
            JobLockedError: If somebody else runs the job at this moment.
            ConfigError: If something cannot be meant.
        """
        if self.is_async:
            _check_no_loop(self.name, executor)
        told = self._told(targets, concurrency, resume, only_failed, limit, progress, dry_run=dry_run)
        begun = JobRun(self, told)
        running = begun.running
        with run_stopped_by_signals(running), sync_breakers(self._breaker_store(told), process_name, leased=False):
            try:
                if self.is_async:
                    asyncio.run(_run_on_loop(running, concurrency))
                elif executor is not None:
                    running.run_in_executor(executor, _TargetCall(self, begun.facts, running.plan), concurrency)
                else:
                    _run_in_threads(running, concurrency)
            except BaseException as error:
                begun.interrupted(error)
                raise
            return begun.finished()

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
        """Run the job on the running event loop, which is asyncio's; as `run`.

        The targets are read on the loop. A handler that is no coroutine function runs in threads, and the targets are
        read in one of them. Cancelled, the run ends as if interrupted.
        """
        told = self._told(targets, concurrency, resume, only_failed, limit, progress, dry_run=dry_run)
        begun = await JobRunStarter(self, told).begun()
        running = begun.running
        with run_stopped_by_signals(running):
            try:
                async with sync_breakers_async(self._breaker_store(told), process_name):
                    await (_run_on_loop if self.is_async else _run_beside_loop)(running, concurrency)
            except BaseException as error:
                await asyncio.shield(asyncio.to_thread(begun.interrupted, error))
                raise
            return await asyncio.shield(asyncio.to_thread(begun.finished))

    def _breaker_store(self, told: RunOptions) -> BreakerStore | None:
        """Return where people see and order the breakers of a run that is written down."""
        return breaker_store_of(self.store) if self.ledger and not told.dry_run else None

    def _told(  # what a run is told
        self,
        targets: Iterable[Any] | None,
        concurrency: int,
        resume: str | None,
        only_failed: str | None,
        limit: int | None,
        progress: Callable[[RunTally], None] | None,
        *,
        dry_run: bool,
    ) -> RunOptions:
        validate_number("concurrency", concurrency, 1)
        if limit is not None:
            validate_number("limit", limit, 0)
        if resume is not None and only_failed is not None:
            message = "resume goes on with a run, only_failed begins another; give one of them"
            raise ConfigError(message)
        if targets is None and self.targets is None and only_failed is None and resume is None:
            message = f"{self.name} has no targets; give them to run(…), or targets=… to the job"
            raise ConfigError(message)
        if (resume is not None or only_failed is not None) and not self.ledger:
            message = f"{self.name} keeps no ledger, so nothing is known of earlier runs"
            raise ConfigError(message)
        return RunOptions(
            functools.partial(self._targets, targets, resume, only_failed),
            resume=resume,
            only_failed=only_failed,
            limit=limit,
            progress=progress,
            dry_run=dry_run,
        )

    def _targets(self, given: Iterable[Any] | None, resume: str | None, only_failed: str | None) -> Iterable[Any]:
        """Return the targets of a run; one that did the rest of another has those of that one, however it goes on."""
        rest_of = only_failed
        if only_failed is not None:
            self.found(only_failed)
        elif resume is not None:
            rest_of = self.found(resume).parent
            if rest_of is not None and self.kept.run(rest_of) is None:
                message = f"{resume} did the rest of {rest_of}, which is not kept any more; run the job anew"
                raise ConfigError(message)

        def own() -> Iterable[Any] | None:
            return given if given is not None else None if self.targets is None else self.targets()

        found = own() if rest_of is None else RemainingTargets.of(self.kept, rest_of, self.key, own)
        if found is None:
            message = f"{self.name} has no targets; give them to run(…), or targets=… to the job"
            raise ConfigError(message)
        return found

    def found(self, run_id: str) -> Run:
        """Return a run of this job.

        Raises:
            ConfigError: If there is none of that number.
        """
        run = self.kept.run(run_id)
        if run is None or run.job != self.name:
            known = ", ".join(each.id for each in self.kept.runs(self.name, 3)) or "none"
            message = f"{self.name} has no run {run_id}; the last ones are: {known}"
            raise ConfigError(message)
        return run

    @property
    def judge(self) -> WouldDecide | None:
        """What says of an error what would be done, where the job is only observed."""
        return would_decide if self.mode == "observe" else None

    @property
    def kept(self) -> Jobs:
        """The store that keeps its ledger."""
        if self.store is None:
            message = f"{self.name} keeps no ledger"
            raise ConfigError(message)
        return self.store


class _TargetCall:
    """Handles a target, in this process by the run's own plan, in another by what can be known there."""

    def __init__(self, job: Job, facts: RunFacts, plan: TargetPlan | None = None) -> None:
        self._job, self._facts = job, facts
        self._plan = plan or TargetPlan.apart(job.handler, job.policy, facts, keep_targets=job.ledger, judge=job.judge)

    def __reduce__(self) -> tuple[Any, ...]:
        return _TargetCall, (self._job, self._facts)

    def __call__(self, key: str, target: Any) -> TargetResult:
        with run_log_keys(self._facts) as keys:
            return run_attempts(self._plan, keys, key, target)


def _find_job(module: str, name: str) -> Job:
    """Find a job by the name of its handler."""
    try:
        found: Any = import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError):
        found = None
    if not isinstance(found, Job):
        message = f"{module}:{name} is no job; one that travels to another process stands in a module, by its own name"
        raise ConfigError(message)
    return found


def _run_in_threads(running: TargetRunner, concurrency: int) -> None:
    if concurrency == 1:
        running.one_by_one()
    else:
        running.in_threads(concurrency)


async def _run_on_loop(running: TargetRunner, concurrency: int) -> None:
    await AsyncTargetRunner(running, concurrency).run()


async def _run_beside_loop(running: TargetRunner, concurrency: int) -> None:
    """Handle targets in threads; cancelled, wait until those that run have finished."""
    work = asyncio.ensure_future(asyncio.to_thread(_run_in_threads, running, concurrency))
    try:
        await asyncio.shield(work)
    except asyncio.CancelledError:
        running.stopped = True
        await asyncio.wait([work])
        raise


def _check_no_loop(name: str, executor: Executor | None) -> None:
    if executor is not None:
        message = f"{name}: an executor calls functions, and the handler is a coroutine function"
        raise ConfigError(message)
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    message = f"{name}: an event loop runs already; await run_async(…)"
    raise ConfigError(message)
