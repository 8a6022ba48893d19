"""A run at work: targets handled one by one, side by side in threads, or by somebody else's executor.

The thread that runs the job reads the targets, counts what became of them and writes it down; the others call the
handler and nothing else. So an iterable may belong to its thread, and nothing that is counted needs a lock. How much
is on its way is bounded, however many targets there are.
"""

import contextvars
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from typing import Any

from holdfast import clock
from holdfast.classify import classify
from holdfast.errors import ConfigError
from holdfast.jobs.context import JobContext, log
from holdfast.jobs.feeding import Feed, Read
from holdfast.jobs.ledger import LockLostError, NoLedger
from holdfast.jobs.tally import Tally
from holdfast.jobs.target import Done, Plan, attempts_of, failed_for_good, keyed
from holdfast.ports.job_rows import TargetStatus
from holdfast.record.tracebacks import traceback_of

__all__ = ["LOOK", "Running"]

LOOK = 0.1
"""Seconds between two looks at what there is to write, and whether somebody said stop."""
_LARGEST_CHUNK = 64
_CHUNK_TIME = 0.005  # seconds of work that are handed out at once, where targets are quick
_SUCCESS = TargetStatus.SUCCESS

Message = tuple[list[Done], int, float | None]
"""Results; how many targets are no longer in a thread's hands; and how long a whole chunk took."""


class Running:
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
        self, plan: Plan, feed: Feed, tally: Tally, ledger: NoLedger, progress: Callable[[Tally], None] | None
    ) -> None:
        """Begin with nothing done."""
        self.plan = plan._replace(wait=self._wait, wait_async=self._wait_async)
        self.feed = feed
        self.tally = tally
        self._ledger = ledger
        self._progress = progress
        self._progress_at = 0.0
        self._ending = threading.Event()
        self._tasks: queue.SimpleQueue[list[Read] | None] = queue.SimpleQueue()
        self._results: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._was_told = False
        self.stopped = False
        self.broken: BaseException | None = None

    @property
    def reader(self) -> int:
        """Number of the thread in which the user's iterable is at work at this moment; 0 if it is not."""
        return self.feed.reader

    @property
    def is_ending(self) -> bool:
        """Whether no other target is begun."""
        return self.stopped or self._ending.is_set()

    @property
    def has_more(self) -> bool:
        """Whether there may be targets to begin."""
        return not self.feed.is_over and not self.is_ending

    def abort(self, reason: str) -> None:
        """Have it end, for a reason."""
        self.tally.abort = self.tally.abort or reason[:500]
        self._ending.set()

    def break_off(self, error: BaseException) -> None:
        """Have it end for what no handler should raise; it is raised where the run was started."""
        self.broken = self.broken or error
        self._ending.set()

    # What the running thread does in between

    def take(self, number: int) -> list[Read]:
        """Take targets; an iterable that raises ends the run."""
        return self.reading(lambda: self.feed.take(number)) or []

    def reading(self, read: Callable[[], list[Read] | None]) -> list[Read] | None:
        """Read targets; an iterable that raises ends the run."""
        try:
            found = read()
        except ConfigError:  # targets that cannot be told from each other: a mistake in the program
            raise
        except Exception as error:  # noqa: BLE001  # the user's iterable, or the ledger of an earlier run
            self.abort(f"the targets could not be read: {classify(error)}")
            return None
        except KeyboardInterrupt:
            if not self.stopped:
                raise
            return None  # it was interrupted because it might have waited for ever
        finally:
            self.tally.passed_over = self.feed.skipped
        return found

    def count(self, done: Sequence[Done]) -> None:
        """Take in what became of targets."""
        self.tally.add(done)
        if self.tally.abort is not None:
            self._ending.set()

    def keep(self, done: Sequence[Done]) -> None:
        """Write down what became of targets; a ledger that takes nothing ends the run."""
        try:
            self._ledger.add(done)
        except LockLostError as error:
            self.abort(str(error))
        except Exception as error:  # noqa: BLE001  # whatever a database raises
            self.abort(f"the ledger cannot be written: {classify(error)}")

    def look(self) -> None:
        """See whether somebody said stop, and tell how far it is."""
        if self.stopped and not self._was_told:
            self._was_told = True
            self._ending.set()
            log.warning(
                "stopping: targets that run may finish; a second signal ends at once", extra=self.plan.facts.keys()
            )
        now = time.monotonic()
        if self._progress is None or now - self._progress_at < LOOK:
            return
        self._progress_at = now
        try:
            self._progress(self.tally)
        except Exception as error:  # noqa: BLE001  # a display is not worth a run
            self._progress = None
            log.error("progress is shown no more, for it raised an error\n%s", traceback_of(error))

    def _arrived(self, done: Sequence[Done]) -> None:
        self.count(done)
        self.keep(done)
        self.look()

    # One by one

    def one_by_one(self) -> None:
        """Handle all targets in this very thread."""
        size = 1
        with keyed(self.plan.facts) as keys:
            while self.has_more:
                chunk, done, began = self.take(size), [], time.perf_counter()
                try:
                    for key, target in chunk:
                        if self.is_ending:
                            break
                        result = attempts_of(self.plan, keys, key, target)
                        done.append(result)
                        if result.row is None or result.row.status is not _SUCCESS:
                            self.count(done)
                            self.keep(done)
                            done = []
                except BaseException as error:  # noqa: BLE001  # raised where the run was started
                    self.break_off(error)
                size = _next_size(size, time.perf_counter() - began)
                self._arrived(done)

    # In threads

    def in_threads(self, concurrency: int) -> None:
        """Handle all targets in threads, so many at once."""
        threads = [
            threading.Thread(
                target=contextvars.copy_context().run, args=(self._work,), name=f"holdfast-job-{number}", daemon=True
            )
            for number in range(concurrency)
        ]
        try:
            for thread in threads:
                thread.start()
            self._feed_threads(concurrency)
        except BaseException:
            self._ending.set()
            for done, _, _ in self._messages(wait=False):
                self.count(done)
                self.keep(done)
            raise
        finally:
            for _ in threads:
                self._tasks.put(None)
        for thread in threads:
            thread.join()

    def _feed_threads(self, concurrency: int) -> None:
        out, size = 0, 1
        while True:
            hungry = self.has_more and out < 2 * concurrency * size
            if hungry:
                chunk = self.take(size)
                if chunk:
                    self._tasks.put(chunk)
                    out += len(chunk)
            elif not out:
                return
            for done, gone, seconds in self._messages(wait=not hungry):
                out -= gone
                self.count(done)
                self.keep(done)
                if seconds is not None:
                    size = _next_size(size, seconds)
            self._arrived(())

    def _messages(self, *, wait: bool) -> Iterator[Message]:
        """Yield what threads have found."""
        try:
            if wait:
                yield self._results.get(timeout=LOOK)
            while True:
                yield self._results.get_nowait()
        except queue.Empty:
            return

    def _work(self) -> None:
        with keyed(self.plan.facts) as keys:
            while (chunk := self._tasks.get()) is not None:
                self._handle(chunk, keys)

    def _handle(self, chunk: list[Read], keys: dict[str, Any]) -> None:
        """Handle targets; tell of one that is no success at once, and give back the rest if they take long."""
        done: list[Done] = []
        out, began = len(chunk), time.perf_counter()
        try:
            for index, (key, target) in enumerate(chunk):
                if self.is_ending:
                    break
                if index and time.perf_counter() - began > _CHUNK_TIME * 2:
                    for each in chunk[index:]:
                        self._tasks.put([each])
                    out -= len(chunk) - index
                    break
                result = attempts_of(self.plan, keys, key, target)
                done.append(result)
                if result.abort is not None:
                    self._ending.set()
                if result.row is None or result.row.status is not _SUCCESS:
                    self._results.put((done, len(done), None))
                    out -= len(done)
                    done = []
        except BaseException as error:  # noqa: BLE001  # raised where the run was started
            self.break_off(error)
        self._results.put((done, out, time.perf_counter() - began))

    # By an executor

    def by_executor(self, executor: Executor, call: Callable[..., Done], concurrency: int) -> None:
        """Have an executor handle all targets, so many of them in its hands at once.

        Args:
            executor: Any of concurrent.futures, in this process or elsewhere.
            call: Handles one target by its key; for other processes it has to be found by its name.
            concurrency: Targets that are submitted before the first is done.
        """
        out: dict[Future[Done], Read] = {}
        try:
            while True:
                hungry = self.has_more and len(out) < concurrency
                if hungry:
                    self._submit(executor, call, self.take(concurrency - len(out)), out)
                if self.is_ending:  # what waits for a worker is not begun
                    out = {future: read for future, read in out.items() if not future.cancel()}
                if not out and not self.has_more:
                    return
                done, _ = wait(out, timeout=0 if hungry else LOOK, return_when=FIRST_COMPLETED) if out else ((), ())
                self._arrived([each for future in done if (each := self._result(future, *out.pop(future))) is not None])
        except BaseException:
            self._ending.set()
            for future in out:
                future.cancel()
            raise

    def _submit(
        self, executor: Executor, call: Callable[..., Done], chunk: list[Read], out: dict["Future[Done]", Read]
    ) -> None:
        for key, target in chunk:
            try:
                out[executor.submit(call, key, target)] = (key, target)
            except RuntimeError as error:  # it was shut down, or a worker of it has died
                self.abort(f"the executor takes no more targets: {error}")
                return

    def _result(self, future: "Future[Done]", key: str, target: Any) -> Done | None:
        """Return what an executor's worker found, or what became of the worker; None if the target was not handled."""
        if future.cancelled():
            self.abort("the executor has given targets back")
            return None
        error = future.exception()
        if error is None:
            return future.result()
        if not isinstance(error, Exception):
            self.break_off(error)
            return None
        if isinstance(error, BrokenExecutor):
            self.abort(f"the executor is broken, and one of the targets in its hands may be why: {error}")
        context = JobContext(self.plan.facts, key, self.plan.policy.max_attempts)
        context.attempt = 1
        return failed_for_good(self.plan, context, target, error)

    # Waiting for another attempt

    def _wait(self, seconds: float) -> bool:
        """Wait before another attempt; False if the run ends meanwhile."""
        if clock.sleep is not time.sleep:  # another clock than the system's
            clock.sleep(seconds)
            return not self.is_ending
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and not self.is_ending:
            self._ending.wait(min(left, LOOK))
        return not self.is_ending

    async def _wait_async(self, seconds: float) -> bool:
        if clock.sleep is not time.sleep:
            await clock.sleep_async(seconds)
            return not self.is_ending
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and not self.is_ending:
            await clock.sleep_async(min(left, LOOK))
        return not self.is_ending


def _next_size(size: int, seconds: float) -> int:
    """Return how many targets to take next: more where they are quick, one where they are not."""
    if seconds < _CHUNK_TIME / 2:
        return min(size * 2, _LARGEST_CHUNK)
    return max(1, size // 2) if seconds > _CHUNK_TIME * 2 else size
