"""A run at work: targets handled one by one, side by side in threads, or by somebody else's executor.

The thread that runs the job reads the targets, counts what became of them and writes it down; the others call the
handler and nothing else. So an iterable may belong to its thread, and nothing that is counted needs a lock. How much
is on its way is bounded, however many targets there are.
"""

import asyncio
import contextvars
import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from contextlib import suppress
from typing import Any

from outlast import clock
from outlast.classify import classify
from outlast.errors import ConfigError
from outlast.jobs.context import JobContext, log
from outlast.jobs.ledger import LockLostError, NoLedger
from outlast.jobs.tally import RunTally
from outlast.jobs.target import TargetPlan, TargetResult, final_result, run_attempts, run_attempts_async, run_log_keys
from outlast.jobs.target_feed import LOOKUP_BATCH, KeyedTarget, TargetFeed
from outlast.record.log_text import traceback_of

CHECK_INTERVAL = 0.1
"""Seconds between two looks at what there is to write, and whether somebody said stop."""
_MIN_AHEAD = 2  # targets that are read for each thread, where they take their time
_MAX_AHEAD = 128  # and where they are quick
_AHEAD_SECONDS = 0.02  # seconds for which what is read ahead lasts
_RESULT_BATCH = 64  # quick targets of one thread that are counted together
_NOT_HANDLED = TargetResult(None)


class TargetRunner:
    """One run.

    Args:
        plan: How targets are treated.
        feed: Where they come from.
        tally: Their figures.
        ledger: Where results are written.
        progress: Called now and then with the figures, by the thread that runs the job.

    Attributes:
        stopped: Whether somebody told the run to stop: targets that run may finish. A signal's handler may set it.
        broken: What ended it that no handler should raise, such as SystemExit.
    """

    def __init__(
        self,
        plan: TargetPlan,
        feed: TargetFeed,
        tally: RunTally,
        ledger: NoLedger,
        progress: Callable[[RunTally], None] | None,
    ) -> None:
        """Begin with nothing done."""
        self.plan = plan._replace(wait=self._wait, wait_async=self._wait_async)
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
        """Number of the thread in which the user's iterable is at work at this moment; 0 if it is not."""
        return self.feed.reader

    @property
    def is_stopping(self) -> bool:
        """Whether no other target is begun."""
        return self.stopped or self._ending.is_set()

    @property
    def has_more(self) -> bool:
        """Whether there may be targets to begin."""
        return self.feed.has_more and not self.is_stopping

    def abort(self, reason: str) -> None:
        """Have it end, for a reason."""
        self.tally.abort = self.tally.abort or reason[:500]
        self._ending.set()

    def fail_run(self, error: BaseException) -> None:
        """Have it end for what no handler should raise; it is raised where the run was started."""
        self.broken = self.broken or error
        self._ending.set()

    # What the running thread does in between

    def take(self) -> list[KeyedTarget]:
        """Take a target, or none; an iterable that raises ends the run."""
        found: list[KeyedTarget] = []
        self.reading(self.feed.hand_out, 1, found.append)
        return found

    def reading(self, read: Callable[..., None], *args: Any) -> None:
        """Read targets; an iterable that raises ends the run."""
        try:
            read(*args)
        except ConfigError as error:  # targets that cannot be told from each other: a mistake in the program
            self.fail_run(error)
        except Exception as error:  # noqa: BLE001  # the user's iterable, or the ledger of an earlier run
            self.abort(f"the targets could not be read: {classify(error)}")
        except KeyboardInterrupt:
            if not self.stopped:  # else it was interrupted because it might have waited for ever
                raise
        finally:
            self.tally.passed_over = self.feed.skipped

    def count(self, done: Sequence[TargetResult]) -> None:
        """Take in what became of targets."""
        self.tally.add(done)
        if self.tally.abort is not None:
            self._ending.set()

    def keep(self, done: Sequence[TargetResult]) -> None:
        """Write down what became of targets; a ledger that takes nothing ends the run."""
        try:
            self._ledger.add(done)
        except LockLostError as error:
            self.abort(str(error))
        except Exception as error:  # noqa: BLE001  # whatever a database raises
            self.abort(f"the ledger cannot be written: {classify(error)}")

    def look(self) -> None:
        """See whether somebody said stop, and tell how far it is."""
        if self.stopped and not self._stop_logged:
            self._stop_logged = True
            self._ending.set()
            log.warning(
                "stopping: targets that run may finish; a second signal ends at once", extra=self.plan.facts.keys()
            )
        now = time.monotonic()
        if self._progress is None or now - self._progress_at < CHECK_INTERVAL:
            return
        self._progress_at = now
        try:
            self._progress(self.tally)
        except Exception as error:  # noqa: BLE001  # a display is not worth a run
            self._progress = None
            log.error("progress is shown no more, for it raised an error\n%s", traceback_of(error))

    def _record_results(self, done: Sequence[TargetResult]) -> None:
        self.count(done)
        self.keep(done)
        self.look()

    # One by one

    def one_by_one(self) -> None:
        """Handle all targets in this very thread, each as soon as it is read."""
        done: list[TargetResult] = []

        def settle() -> None:
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
                        settle()
                return self.is_stopping

            while self.has_more:
                self.reading(self.feed.hand_out, _RESULT_BATCH, handle)
                settle()

    # In threads

    def in_threads(self, concurrency: int) -> None:
        """Handle all targets in threads, so many at once."""
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
            self._record_results(self._drained(wait=False))
            raise
        finally:
            for _ in threads:
                self._tasks.put(None)
        for thread in threads:
            thread.join()

    def _feed_threads(self, concurrency: int) -> None:
        """Hand out targets, more of them ahead the quicker they are, and take in what became of them."""
        least, most = _MIN_AHEAD * concurrency, _MAX_AHEAD * concurrency
        back, room, since = 0, least, time.perf_counter()
        while True:
            ahead = self.feed.handed - back
            hungry = self.has_more and ahead < room
            if hungry:
                self.reading(self.feed.hand_out, min(room - ahead, _RESULT_BATCH), self._tasks.put)
            elif not ahead:
                return
            done = self._drained(wait=not hungry)
            back += len(done)
            self._record_results(done)
            if done and not hungry:
                now = time.perf_counter()
                room = max(least, min(int(len(done) / (now - since) * _AHEAD_SECONDS), room * 2, most))
                since = now

    def _drained(self, *, wait: bool) -> list[TargetResult]:
        """Return what threads have found."""
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

    # By an executor

    def run_in_executor(self, executor: Executor, call: Callable[..., TargetResult], concurrency: int) -> None:
        """Have an executor handle all targets, so many of them in its hands at once.

        Args:
            executor: Any of concurrent.futures, in this process or elsewhere.
            call: Handles one target by its key; for other processes it has to be found by its name.
            concurrency: Targets that are submitted before the first is done.
        """
        out: dict[Future[TargetResult], KeyedTarget] = {}
        try:
            while True:
                hungry = self.has_more and len(out) < concurrency
                if hungry:
                    self._submit(executor, call, self.take(), out)
                if self.is_stopping:  # what waits for a worker is not begun
                    out = {future: read for future, read in out.items() if not future.cancel()}
                if not out and not self.has_more:
                    return
                done, _ = (
                    wait(out, timeout=0 if hungry else CHECK_INTERVAL, return_when=FIRST_COMPLETED) if out else ((), ())
                )
                self._record_results(
                    [each for future in done if (each := self._result(future, *out.pop(future))) is not None]
                )
        except BaseException:
            self._ending.set()
            for future in out:
                future.cancel()
            raise

    def _submit(
        self,
        executor: Executor,
        call: Callable[..., TargetResult],
        chunk: list[KeyedTarget],
        out: dict["Future[TargetResult]", KeyedTarget],
    ) -> None:
        for key, target in chunk:
            try:
                out[executor.submit(call, key, target)] = (key, target)
            except Exception as error:
                mistake = _config_error_behind(error)
                if mistake is not None:
                    raise mistake from error
                if not isinstance(error, RuntimeError):
                    raise
                self.abort(f"the executor takes no more targets: {error}")  # it was shut down, or a worker has died
                return

    def _result(self, future: "Future[TargetResult]", key: str, target: Any) -> TargetResult | None:
        """Return what an executor's worker found, or what became of the worker; None if the target was not handled."""
        if future.cancelled():
            self.abort("the executor has given targets back")
            return None
        error = future.exception()
        if error is None:
            return future.result()
        if not isinstance(error, Exception):
            if not (self.stopped and isinstance(error, KeyboardInterrupt)):  # Ctrl-C reaches all processes of a group
                self.fail_run(error)
            return None
        if isinstance(error, BrokenExecutor):
            self.abort(f"the executor is broken, and one of the targets in its hands may be why: {error}")
        context = JobContext(self.plan.facts, key, self.plan.policy.max_attempts)
        context.attempt = 1
        return final_result(self.plan, context, target, error)

    # Waiting for another attempt

    def _wait(self, seconds: float) -> bool:
        """Wait before another attempt; False if the run ends meanwhile."""
        if clock.sleep is not time.sleep:  # another clock than the system's
            clock.sleep(seconds)
            return not self.is_stopping
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and not self.is_stopping:
            self._ending.wait(min(left, CHECK_INTERVAL))
        return not self.is_stopping

    async def _wait_async(self, seconds: float) -> bool:
        if clock.sleep is not time.sleep:
            await clock.sleep_async(seconds)
            return not self.is_stopping
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and not self.is_stopping:
            await clock.sleep_async(min(left, CHECK_INTERVAL))
        return not self.is_stopping


def _config_error_behind(error: BaseException) -> ConfigError | None:
    """Return what is wrong with the program where an executor tells of it as of something that cannot be sent."""
    seen: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ConfigError) and cause not in seen:
        seen.append(cause)
        cause = cause.__cause__  # what it merely met with while something else was handled says nothing
    return cause if isinstance(cause, ConfigError) else None


# A run at work on an event loop: targets are handled by coroutines, side by side.

_MAX_UNWRITTEN = 5000  # results that may wait to be written before handlers wait for it
_YIELD_INTERVAL = 0.005  # seconds after which the loop gets a turn, where handlers never wait for anything


class AsyncTargetRunner:
    """Handles all targets of a run by coroutines. The iterable is read on the loop; the ledger is written beside it.

    Args:
        running: The run.
        concurrency: Targets at once.
    """

    def __init__(self, running: TargetRunner, concurrency: int) -> None:
        """Begin with nothing done."""
        self._running = running
        self._concurrency = concurrency
        self._results: list[TargetResult] = []
        self._looking_up = asyncio.Lock()
        self._turned_at = time.perf_counter()

    async def run(self) -> None:
        """Handle all targets."""
        workers = [asyncio.create_task(self._work()) for _ in range(self._concurrency)]
        writing: asyncio.Future[None] | None = None
        try:
            while not all(worker.done() for worker in workers):
                await asyncio.wait(workers, timeout=CHECK_INTERVAL)
                writing = asyncio.ensure_future(self._write())
                await asyncio.shield(writing)
                self._running.look()
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
        await asyncio.to_thread(self._running.keep, done)

    async def _work(self) -> None:
        with run_log_keys(self._running.plan.facts) as keys:
            try:
                while (taken := await self._take()) is not None:
                    await self._handle(taken, keys)
            except asyncio.CancelledError:
                raise
            except BaseException as error:  # noqa: BLE001  # raised where the run was started
                self._running.fail_run(error)

    async def _handle(self, taken: KeyedTarget, keys: dict[str, Any]) -> None:
        done = await run_attempts_async(self._running.plan, keys, *taken)
        self._running.count((done,))
        self._results.append(done)
        if time.perf_counter() - self._turned_at > _YIELD_INTERVAL:
            await asyncio.sleep(0)
            self._turned_at = time.perf_counter()
        while len(self._results) > _MAX_UNWRITTEN:  # noqa: ASYNC110  # seldom, and never for long
            await asyncio.sleep(CHECK_INTERVAL / 10)

    async def _take(self) -> KeyedTarget | None:
        """Take a target; None if there are no more, or no more are to be begun."""
        running, feed = self._running, self._running.feed
        while not running.is_stopping:
            taken = feed.ready(1)
            if not taken and not feed.asks:
                taken = running.take()
            if taken:
                return taken[0]
            if feed.asks:
                async with self._looking_up:
                    await self._look_up()
            if not feed.has_more:
                return None
        return None

    async def _look_up(self) -> None:
        """Read some targets here, and ask in a thread which of them are done."""
        running, feed = self._running, self._running.feed
        if feed.has_ready or feed.is_over:
            return
        read: list[KeyedTarget] = []
        running.reading(feed.read_into, LOOKUP_BATCH, read.append)
        if read:
            await asyncio.to_thread(running.reading, feed.drop_done, read)
