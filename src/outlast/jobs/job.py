"""A batch job: a handler for one target, and runs over many of them."""

import asyncio
import functools
import os
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor
from importlib import import_module
from typing import Any

from outlast.beacon import BreakerStore, keeper_of, process_name, shining, shining_async
from outlast.decide.budget import Budget
from outlast.decide.gate import Gate
from outlast.decide.policy import RetryPolicy
from outlast.errors import ConfigError
from outlast.jobs.begun import Beginning, Begun, Told
from outlast.jobs.checks import (
    check_handler,
    check_targets,
    checked_breakers,
    checked_number,
    checked_policy,
    checked_text,
)
from outlast.jobs.context import JobContext, RunFacts
from outlast.jobs.feeding import key_of
from outlast.jobs.looping import Looping
from outlast.jobs.observing import judged
from outlast.jobs.rest import Rest
from outlast.jobs.running import Running
from outlast.jobs.summary import Summary
from outlast.jobs.tally import Tally
from outlast.jobs.target import Done, Judge, Plan, attempts_of, keyed
from outlast.ports.job_rows import Run
from outlast.ports.jobs import Jobs
from outlast.run.observing import checked_mode
from outlast.run.retry import is_coroutine_function
from outlast.run.signals import run_stopped_by_signals

__all__ = ["Job"]

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
        key: Callable[[Any], str] = key_of,
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
        check_handler(handler)
        check_targets(targets)
        functools.update_wrapper(self, handler)
        self.store, self.handler, self.name, self.entity = store, handler, checked_text("name", name), entity
        self.gate, self.policy, self.targets, self.key = gate, checked_policy(policy), targets, key
        self.breakers, self.early_stop, self.budget = checked_breakers(breakers or {}), early_stop, budget
        self.hand_over, self.ledger = hand_over, ledger and store is not None
        self.env = checked_text("env", env or os.environ.get(_ENV) or "local")
        self.is_async = is_coroutine_function(handler)
        self.etl, self.keep, self.mode = etl, keep, checked_mode(mode)
        if entity is not None:
            checked_text("entity", entity)
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
        if _named(*name) is not self:
            message = f"{':'.join(name)} is another job; a job travels to another process by its name"
            raise ConfigError(message)
        return _named, name

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
        progress: Callable[[Tally], None] | None = None,
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
        begun = Begun(self, told)
        running = begun.running
        with run_stopped_by_signals(running), shining(self._told_of_breakers(told), process_name, leased=False):
            try:
                if self.is_async:
                    asyncio.run(_looped(running, concurrency))
                elif executor is not None:
                    running.by_executor(executor, _Call(self, begun.facts, running.plan), concurrency)
                else:
                    _handled(running, concurrency)
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
        progress: Callable[[Tally], None] | None = None,
    ) -> Summary:
        """Run the job on the running event loop, which is asyncio's; as `run`.

        The targets are read on the loop. A handler that is no coroutine function runs in threads, and the targets are
        read in one of them. Cancelled, the run ends as if interrupted.
        """
        told = self._told(targets, concurrency, resume, only_failed, limit, progress, dry_run=dry_run)
        begun = await Beginning(self, told).begun()
        running = begun.running
        with run_stopped_by_signals(running):
            try:
                async with shining_async(self._told_of_breakers(told), process_name):
                    await (_looped if self.is_async else _threaded)(running, concurrency)
            except BaseException as error:
                await asyncio.shield(asyncio.to_thread(begun.interrupted, error))
                raise
            return await asyncio.shield(asyncio.to_thread(begun.finished))

    def _told_of_breakers(self, told: Told) -> BreakerStore | None:
        """Return where people see and order the breakers of a run that is written down."""
        return keeper_of(self.store) if self.ledger and not told.dry_run else None

    def _told(  # what a run is told
        self,
        targets: Iterable[Any] | None,
        concurrency: int,
        resume: str | None,
        only_failed: str | None,
        limit: int | None,
        progress: Callable[[Tally], None] | None,
        *,
        dry_run: bool,
    ) -> Told:
        checked_number("concurrency", concurrency, 1)
        if limit is not None:
            checked_number("limit", limit, 0)
        if resume is not None and only_failed is not None:
            message = "resume goes on with a run, only_failed begins another; give one of them"
            raise ConfigError(message)
        if targets is None and self.targets is None and only_failed is None and resume is None:
            message = f"{self.name} has no targets; give them to run(…), or targets=… to the job"
            raise ConfigError(message)
        if (resume is not None or only_failed is not None) and not self.ledger:
            message = f"{self.name} keeps no ledger, so nothing is known of earlier runs"
            raise ConfigError(message)
        return Told(
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

        found = own() if rest_of is None else Rest.of(self.kept, rest_of, self.key, own)
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
    def judge(self) -> Judge | None:
        """What says of an error what would be done, where the job is only observed."""
        return judged if self.mode == "observe" else None

    @property
    def kept(self) -> Jobs:
        """The store that keeps its ledger."""
        if self.store is None:
            message = f"{self.name} keeps no ledger"
            raise ConfigError(message)
        return self.store


class _Call:
    """Handles a target, in this process by the run's own plan, in another by what can be known there."""

    def __init__(self, job: Job, facts: RunFacts, plan: Plan | None = None) -> None:
        self._job, self._facts = job, facts
        self._plan = plan or Plan.apart(job.handler, job.policy, facts, keep_targets=job.ledger, judge=job.judge)

    def __reduce__(self) -> tuple[Any, ...]:
        return _Call, (self._job, self._facts)

    def __call__(self, key: str, target: Any) -> Done:
        with keyed(self._facts) as keys:
            return attempts_of(self._plan, keys, key, target)


def _named(module: str, name: str) -> Job:
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


def _handled(running: Running, concurrency: int) -> None:
    if concurrency == 1:
        running.one_by_one()
    else:
        running.in_threads(concurrency)


async def _looped(running: Running, concurrency: int) -> None:
    await Looping(running, concurrency).run()


async def _threaded(running: Running, concurrency: int) -> None:
    """Handle targets in threads; cancelled, wait until those that run have finished."""
    work = asyncio.ensure_future(asyncio.to_thread(_handled, running, concurrency))
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
