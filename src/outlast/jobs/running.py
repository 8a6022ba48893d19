"""A run at work: targets handled one by one, side by side in threads, or by somebody else's executor.

The thread that runs the job reads the targets, counts what became of them and writes it down; the others call the
handler and nothing else. So an iterable may belong to its thread, and nothing that is counted needs a lock. How much
is on its way is bounded, however many targets there are.
"""

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
from outlast.jobs.feeding import Feed, Read
from outlast.jobs.ledger import LockLostError, NoLedger
from outlast.jobs.tally import Tally
from outlast.jobs.target import Done, Plan, attempts_of, failed_for_good, keyed
from outlast.record.tracebacks import traceback_of

__all__ = ["LOOK", "Running"]

LOOK = 0.1
"""Seconds between two looks at what there is to write, and whether somebody said stop."""
_AHEAD = 2  # targets that are read for each thread, where they take their time
_MOST_AHEAD = 128  # and where they are quick
_BETWEEN = 0.02  # seconds for which what is read ahead lasts
_AT_ONCE = 64  # quick targets of one thread that are counted together
_NOT_HANDLED = Done(None)


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
        self._tasks: queue.SimpleQueue[Read | None] = queue.SimpleQueue()
        self._results: queue.SimpleQueue[Done] = queue.SimpleQueue()
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
        return self.feed.has_more and not self.is_ending

    def abort(self, reason: str) -> None:
        """Have it end, for a reason."""
        self.tally.abort = self.tally.abort or reason[:500]
        self._ending.set()

    def break_off(self, error: BaseException) -> None:
        """Have it end for what no handler should raise; it is raised where the run was started."""
        self.broken = self.broken or error
        self._ending.set()

    # What the running thread does in between

    def take(self) -> list[Read]:
        """Take a target, or none; an iterable that raises ends the run."""
        found: list[Read] = []
        self.reading(self.feed.pour, 1, found.append)
        return found

    def reading(self, read: Callable[..., None], *args: Any) -> None:
        """Read targets; an iterable that raises ends the run."""
        try:
            read(*args)
        except ConfigError as error:  # targets that cannot be told from each other: a mistake in the program
            self.break_off(error)
        except Exception as error:  # noqa: BLE001  # the user's iterable, or the ledger of an earlier run
            self.abort(f"the targets could not be read: {classify(error)}")
        except KeyboardInterrupt:
            if not self.stopped:  # else it was interrupted because it might have waited for ever
                raise
        finally:
            self.tally.passed_over = self.feed.skipped

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
        """Handle all targets in this very thread, each as soon as it is read."""
        done: list[Done] = []

        def settle() -> None:
            self._arrived(done)
            done.clear()

        with keyed(self.plan.facts) as keys:

            def handle(read: Read) -> bool:
                try:
                    done.append(attempts_of(self.plan, keys, *read))
                except BaseException as error:  # noqa: BLE001  # raised where the run was started
                    self.break_off(error)
                else:
                    if done[-1].failure is not None:
                        settle()
                return self.is_ending

            while self.has_more:
                self.reading(self.feed.pour, _AT_ONCE, handle)
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
            self._ledger.hurry()
            self._arrived(self._drained(wait=False))
            raise
        finally:
            for _ in threads:
                self._tasks.put(None)
        for thread in threads:
            thread.join()

    def _feed_threads(self, concurrency: int) -> None:
        """Hand out targets, more of them ahead the quicker they are, and take in what became of them."""
        least, most = _AHEAD * concurrency, _MOST_AHEAD * concurrency
        back, room, since = 0, least, time.perf_counter()
        while True:
            ahead = self.feed.handed - back
            hungry = self.has_more and ahead < room
            if hungry:
                self.reading(self.feed.pour, min(room - ahead, _AT_ONCE), self._tasks.put)
            elif not ahead:
                return
            done = self._drained(wait=not hungry)
            back += len(done)
            self._arrived(done)
            if done and not hungry:
                now = time.perf_counter()
                room = max(least, min(int(len(done) / (now - since) * _BETWEEN), room * 2, most))
                since = now

    def _drained(self, *, wait: bool) -> list[Done]:
        """Return what threads have found."""
        found = []
        with suppress(queue.Empty):
            if wait:
                found.append(self._results.get(timeout=LOOK))
            while True:
                found.append(self._results.get_nowait())
        return found

    def _work(self) -> None:
        tasks, results, plan = self._tasks, self._results, self.plan
        with keyed(plan.facts) as keys:
            while (taken := tasks.get()) is not None:
                done = _NOT_HANDLED
                if not self.is_ending:
                    try:
                        done = attempts_of(plan, keys, *taken)
                        if done.abort is not None:
                            self._ending.set()
                    except BaseException as error:  # noqa: BLE001  # raised where the run was started
                        self.break_off(error)
                results.put(done)

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
                    self._submit(executor, call, self.take(), out)
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
            except Exception as error:
                mistake = _mistake_behind(error)
                if mistake is not None:
                    raise mistake from error
                if not isinstance(error, RuntimeError):
                    raise
                self.abort(f"the executor takes no more targets: {error}")  # it was shut down, or a worker has died
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
            if not (self.stopped and isinstance(error, KeyboardInterrupt)):  # Ctrl-C reaches all processes of a group
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


def _mistake_behind(error: BaseException) -> ConfigError | None:
    """Return what is wrong with the program where an executor tells of it as of something that cannot be sent."""
    seen: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ConfigError) and cause not in seen:
        seen.append(cause)
        cause = cause.__cause__  # what it merely met with while something else was handled says nothing
    return cause if isinstance(cause, ConfigError) else None
