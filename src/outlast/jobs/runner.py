"""Processes the targets of a run: in order, in threads, in an executor, or as coroutines on an event loop.

The thread that runs the job reads the targets, counts the results and writes them; the others only call the handler.
So an iterable that belongs to one thread works, and counting needs no lock. The number of targets in progress is
bounded.
"""

import asyncio
import contextvars
import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from contextlib import suppress
from dataclasses import replace
from typing import Any

from outlast import clock
from outlast.classify import classify
from outlast.classify.chain import causes_of
from outlast.errors import ConfigError
from outlast.jobs.context import JobContext, log
from outlast.jobs.ledger import LockLostError, NoLedger
from outlast.jobs.tally import RunTally
from outlast.jobs.target import TargetPlan, TargetResult, final_result, run_attempts, run_attempts_async, run_log_keys
from outlast.jobs.target_feed import LOOKUP_BATCH, KeyedTarget, TargetFeed
from outlast.record.log_text import traceback_of

CHECK_INTERVAL = 0.1
"""Seconds between two checks for results to write and for a stop."""
_MIN_AHEAD = 2  # targets read ahead for each thread if they are slow
_MAX_AHEAD = 128  # and if they are fast
_AHEAD_SECONDS = 0.02  # seconds of work to read ahead
_RESULT_BATCH = 64  # results counted together
_NOT_HANDLED = TargetResult(None)


class TargetRunner:
    """Processes the targets of one run.

    Args:
        plan: How targets are processed.
        feed: Source of the targets.
        tally: Counts the results.
        ledger: Records the results.
        progress: Called with the tally, at most every 0.1 seconds, by the thread that runs the job.

    Attributes:
        stopped: Set it to stop the run: running targets finish. A signal handler may set it.
        broken: What ended the run although no handler should raise it, such as SystemExit.
    """

    def __init__(
        self,
        plan: TargetPlan,
        feed: TargetFeed,
        tally: RunTally,
        ledger: NoLedger,
        progress: Callable[[RunTally], None] | None,
    ) -> None:
        self.plan = replace(plan, wait=self._wait, wait_async=self._wait_async)
        self.feed = feed
        self.tally = tally
        self._ledger = ledger
        self._progress = progress
        self._progress_at = 0.0
        self._ending = threading.Event()
        self._tasks: queue.SimpleQueue[KeyedTarget | None] = queue.SimpleQueue()
        self._results: queue.SimpleQueue[TargetResult] = queue.SimpleQueue()
        self._stop_logged = False
        self.stopped = False
        self.broken: BaseException | None = None

    @property
    def reader(self) -> int:
        """Id of the thread that is in the user's iterable at this moment; 0 if none is."""
        return self.feed.reader

    @property
    def is_stopping(self) -> bool:
        """Whether no more targets are started."""
        return self.stopped or self._ending.is_set()

    @property
    def has_more(self) -> bool:
        """Whether there may be more targets to start."""
        return self.feed.has_more and not self.is_stopping

    def abort(self, reason: str) -> None:
        """End the run for a reason."""
        self.tally.abort = self.tally.abort or reason[:500]
        self._ending.set()

    def fail_run(self, error: BaseException) -> None:
        """End the run with an error that no handler should raise; it is raised where the run was started."""
        self.broken = self.broken or error
        self._ending.set()

    def take(self) -> list[KeyedTarget]:
        """Return the next target in a list, or an empty list; an iterable that raises ends the run."""
        found: list[KeyedTarget] = []
        self.guard_reading(self.feed.hand_out, 1, found.append)
        return found

    def guard_reading(self, read: Callable[..., None], *args: Any) -> None:
        """Call a function that reads targets; if it raises, the run ends."""
        try:
            read(*args)
        except ConfigError as error:  # a target without a key: a mistake in the program
            self.fail_run(error)
        except Exception as error:  # noqa: BLE001  # the user's iterable, or the ledger of an earlier run
            self.abort(f"the targets could not be read: {classify(error)}")
        except KeyboardInterrupt:
            if not self.stopped:  # else the interrupt only ends a read that could block forever
                raise
        finally:
            self.tally.passed_over = self.feed.skipped

    def count(self, done: Sequence[TargetResult]) -> None:
        """Count results."""
        self.tally.add(done)
        if self.tally.abort is not None:
            self._ending.set()

    def write_results(self, done: Sequence[TargetResult]) -> None:
        """Record results in the ledger; a ledger that cannot be written ends the run."""
        try:
            self._ledger.add(done)
        except LockLostError as error:
            self.abort(str(error))
        except Exception as error:  # noqa: BLE001  # any error of a database
            self.abort(f"the ledger cannot be written: {classify(error)}")

    def check_stop(self) -> None:
        """Stop the run if it was told to, and report the progress."""
        if self.stopped and not self._stop_logged:
            self._stop_logged = True
            self._ending.set()
            log.warning("stopping: running targets finish; a second signal ends at once", extra=self.plan.facts.keys())
        now = time.monotonic()
        if self._progress is None or now - self._progress_at < CHECK_INTERVAL:
            return
        self._progress_at = now
        try:
            self._progress(self.tally)
        except Exception as error:  # noqa: BLE001  # a failing display must not end the run
            self._progress = None
            log.error("progress raised an error and is not called again\n%s", traceback_of(error))

    def _record_results(self, done: Sequence[TargetResult]) -> None:
        self.count(done)
        self.write_results(done)
        self.check_stop()

    def run_in_order(self) -> None:
        """Process all targets in the calling thread, each as soon as it is read."""
        done: list[TargetResult] = []

        def record() -> None:
            self._record_results(done)
            done.clear()

        with run_log_keys(self.plan.facts) as keys:

            def handle(read: KeyedTarget) -> bool:
                try:
                    done.append(run_attempts(self.plan, keys, *read))
                except BaseException as error:  # noqa: BLE001  # raised where the run was started
                    self.fail_run(error)
                else:
                    if done[-1].failure is not None:
                        record()
                return self.is_stopping

            while self.has_more:
                self.guard_reading(self.feed.hand_out, _RESULT_BATCH, handle)
                record()

    def run_in_threads(self, concurrency: int) -> None:
        """Process all targets in this many threads."""
        threads = [
            threading.Thread(
                target=contextvars.copy_context().run, args=(self._work,), name=f"outlast-job-{number}", daemon=True
            )
            for number in range(concurrency)
        ]
        try:
            for thread in threads:
                thread.start()
            self._feed_threads(concurrency)
        except BaseException:
            self._ending.set()
            self._ledger.stop_waiting()
            self._record_results(self._take_results(wait=False))
            raise
        finally:
            for _ in threads:
                self._tasks.put(None)
        for thread in threads:
            thread.join()

    def _feed_threads(self, concurrency: int) -> None:
        """Hand out targets and record the results; the faster the targets, the more are read ahead."""
        least, most = _MIN_AHEAD * concurrency, _MAX_AHEAD * concurrency
        returned, room, since = 0, least, time.perf_counter()
        while True:
            ahead = self.feed.handed - returned
            has_room = self.has_more and ahead < room
            if has_room:
                self.guard_reading(self.feed.hand_out, min(room - ahead, _RESULT_BATCH), self._tasks.put)
            elif not ahead:
                return
            done = self._take_results(wait=not has_room)
            returned += len(done)
            self._record_results(done)
            if done and not has_room:
                now = time.perf_counter()
                room = max(least, min(int(len(done) / (now - since) * _AHEAD_SECONDS), room * 2, most))
                since = now

    def _take_results(self, *, wait: bool) -> list[TargetResult]:
        """Return the results of the threads."""
        found = []
        with suppress(queue.Empty):
            if wait:
                found.append(self._results.get(timeout=CHECK_INTERVAL))
            while True:
                found.append(self._results.get_nowait())
        return found

    def _work(self) -> None:
        tasks, results, plan = self._tasks, self._results, self.plan
        with run_log_keys(plan.facts) as keys:
            while (taken := tasks.get()) is not None:
                done = _NOT_HANDLED
                if not self.is_stopping:
                    try:
                        done = run_attempts(plan, keys, *taken)
                        if done.abort is not None:
                            self._ending.set()
                    except BaseException as error:  # noqa: BLE001  # raised where the run was started
                        self.fail_run(error)
                results.put(done)

    def run_in_executor(self, executor: Executor, call: Callable[..., TargetResult], concurrency: int) -> None:
        """Process all targets in an executor.

        Args:
            executor: Any executor with the interface of concurrent.futures.
            call: Processes one target, given its key and itself; for other processes it must be picklable.
            concurrency: Maximum number of targets submitted at the same time.
        """
        submitted: dict[Future[TargetResult], KeyedTarget] = {}
        try:
            while True:
                has_room = self.has_more and len(submitted) < concurrency
                for read in self.take() if has_room else ():
                    self._submit(executor, call, read, submitted)
                if self.is_stopping:  # targets that wait for a worker are not started
                    submitted = {future: read for future, read in submitted.items() if not future.cancel()}
                if not submitted and not self.has_more:
                    return
                done: set[Future[TargetResult]] = set()
                if submitted:
                    timeout = 0 if has_room else CHECK_INTERVAL
                    done, _ = wait(submitted, timeout=timeout, return_when=FIRST_COMPLETED)
                results = [self._result(future, *submitted.pop(future)) for future in done]
                self._record_results([each for each in results if each is not None])
        except BaseException:
            self._ending.set()
            for future in submitted:
                future.cancel()
            raise

    def _submit(
        self,
        executor: Executor,
        call: Callable[..., TargetResult],
        read: KeyedTarget,
        submitted: dict["Future[TargetResult]", KeyedTarget],
    ) -> None:
        try:
            submitted[executor.submit(call, *read)] = read
        except Exception as error:
            mistake = _config_error_behind(error)
            if mistake is not None:
                raise mistake from error
            if not isinstance(error, RuntimeError):
                raise
            self.abort(f"the executor accepts no more targets: {error}")  # it was shut down, or a worker has died

    def _result(self, future: "Future[TargetResult]", key: str, target: Any) -> TargetResult | None:
        """Return the result of a target in an executor; None if it was not processed."""
        if future.cancelled():
            self.abort("the executor cancelled targets")
            return None
        error = future.exception()
        if error is None:
            return future.result()
        if not issubclass(type(error), Exception):
            if not (self.stopped and isinstance(error, KeyboardInterrupt)):  # Ctrl-C reaches all processes of a group
                self.fail_run(error)
            return None
        if issubclass(type(error), BrokenExecutor):
            self.abort(f"the executor is broken, perhaps by one of the targets it was running: {error}")
        context = JobContext(self.plan.facts, key, self.plan.policy.max_attempts)
        context.attempt = 1
        return final_result(self.plan, context, target, error)

    def _wait(self, seconds: float) -> bool:
        """Wait before another attempt; return False if the run ends meanwhile."""
        if clock.sleep is not time.sleep:  # a test clock
            clock.sleep(seconds)
        else:
            end = time.monotonic() + seconds
            while (left := end - time.monotonic()) > 0 and not self.is_stopping:
                self._ending.wait(min(left, CHECK_INTERVAL))
        return not self.is_stopping

    async def _wait_async(self, seconds: float) -> bool:
        if clock.sleep is not time.sleep:
            await clock.sleep_async(seconds)
        else:
            end = time.monotonic() + seconds
            while (left := end - time.monotonic()) > 0 and not self.is_stopping:
                await clock.sleep_async(min(left, CHECK_INTERVAL))
        return not self.is_stopping


def _config_error_behind(error: BaseException) -> ConfigError | None:
    """Return the ConfigError behind an error: executors wrap it in an error of pickling."""
    links = (error, *causes_of(error))  # not __context__, which may be unrelated
    return next((each for each in links if isinstance(each, ConfigError)), None)


_MAX_UNWRITTEN = 5000  # results waiting to be written before new targets have to wait
_YIELD_INTERVAL = 0.005  # seconds after which other coroutines run, even if no handler ever waits


async def run_on_loop(runner: TargetRunner, concurrency: int) -> None:
    """Process all targets of a run as coroutines, this many at a time."""
    await _AsyncTargetRunner(runner).run(concurrency)


class _AsyncTargetRunner:
    """Processes the targets of a run as coroutines. It reads the iterable on the loop, and writes in a thread.

    Args:
        runner: The runner whose feed, tally and ledger it uses.
    """

    def __init__(self, runner: TargetRunner) -> None:
        self._runner = runner
        self._results: list[TargetResult] = []
        self._looking_up = asyncio.Lock()
        self._yielded_at = time.perf_counter()

    async def run(self, concurrency: int) -> None:
        """Process all targets."""
        workers = [asyncio.create_task(self._work()) for _ in range(concurrency)]
        writing: asyncio.Future[None] | None = None
        try:
            while not all(worker.done() for worker in workers):
                await asyncio.wait(workers, timeout=CHECK_INTERVAL)
                writing = asyncio.ensure_future(self._write())
                await asyncio.shield(writing)
                self._runner.check_stop()
        except BaseException:
            for worker in workers:
                worker.cancel()
            await asyncio.wait(workers)
            if writing is not None:
                await asyncio.wait([writing])
            await self._write()
            raise
        await self._write()

    async def _write(self) -> None:
        done, self._results = self._results, []
        await asyncio.to_thread(self._runner.write_results, done)

    async def _work(self) -> None:
        with run_log_keys(self._runner.plan.facts) as keys:
            try:
                while (taken := await self._take()) is not None:
                    await self._handle(taken, keys)
            except asyncio.CancelledError:
                raise
            except BaseException as error:  # noqa: BLE001  # raised where the run was started
                self._runner.fail_run(error)

    async def _handle(self, taken: KeyedTarget, keys: dict[str, Any]) -> None:
        done = await run_attempts_async(self._runner.plan, keys, *taken)
        self._runner.count((done,))
        self._results.append(done)
        if time.perf_counter() - self._yielded_at > _YIELD_INTERVAL:
            await asyncio.sleep(0)
            self._yielded_at = time.perf_counter()
        while len(self._results) > _MAX_UNWRITTEN:  # noqa: ASYNC110  # rare and short
            await asyncio.sleep(CHECK_INTERVAL / 10)

    async def _take(self) -> KeyedTarget | None:
        """Return the next target; None if there are no more, or the run is stopping."""
        runner, feed = self._runner, self._runner.feed
        while not runner.is_stopping:
            taken = feed.ready(1)
            if not taken and not feed.skips_done:
                taken = runner.take()
            if taken:
                return taken[0]
            if feed.skips_done:
                async with self._looking_up:
                    await self._look_up()
            if not feed.has_more:
                return None
        return None

    async def _look_up(self) -> None:
        """Read some targets here, and look up in a thread which of them are done."""
        runner, feed = self._runner, self._runner.feed
        if feed.has_ready or feed.is_over:
            return
        read: list[KeyedTarget] = []
        runner.guard_reading(feed.read_into, LOOKUP_BATCH, read.append)
        if read:
            await asyncio.to_thread(runner.guard_reading, feed.drop_done, read)
