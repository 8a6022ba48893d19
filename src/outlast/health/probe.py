"""One check and the thread that asks it: whatever it does, there is an answer in time, and no second thread hangs."""

import inspect
import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from outlast import clock
from outlast.health.findings import Finding

__all__ = ["Ask", "Probe"]

Ask = Callable[[], bool | Finding]

_QUIET = 60.0  # seconds between two records of one check
_DETAIL_LIMIT = 300  # characters
log = logging.getLogger("outlast.health")


class _Turn:
    """One question under way; `said` is for the log."""

    __slots__ = ("done", "found", "keys", "late", "said")

    def __init__(self) -> None:
        self.done = threading.Event()
        self.late = False
        self.found = Finding(ok=False, detail="no answer")
        self.said = ""
        self.keys: dict[str, Any] = {}


class Probe:
    """Asks one check, in a thread of its own.

    Args:
        name: Of the check.
        ask: The check.
        timeout: Seconds that it has, for what is said.
    """

    def __init__(self, name: str, ask: Ask, timeout: float) -> None:
        """Begin without a thread."""
        self.name = name
        self._ask = ask
        self._timeout = timeout
        self._turn: _Turn | None = None
        self._told_at: float | None = None
        self._told_trouble = False

    def begin(self) -> None:
        """Ask, unless the last question hangs still: one thread waits for it, never two."""
        turn = self._turn
        if turn is not None and not turn.done.is_set():
            return
        self._turn = turn = _Turn()
        try:
            threading.Thread(target=self._answer, args=(turn,), name=f"outlast-health-{self.name}", daemon=True).start()
        except RuntimeError as error:  # no more threads: as little as can be known of a sick process
            self._failed(turn, error)
            turn.done.set()

    def forget(self) -> None:
        """Wait no longer for a question that is under way, as its thread is in another process."""
        self._turn = None

    def found(self, until: float) -> Finding:
        """Return the answer, waiting for it until then on the real monotonic clock."""
        turn = self._turn
        if turn is None:
            return Finding(ok=False, detail="not asked")
        if turn.late or not turn.done.wait(max(0.0, until - time.monotonic())):
            turn.late = True  # its answer, if there ever is one, is of no use any more
            finding = Finding(ok=False, detail=f"no answer within {self._timeout:g} s")
            self._tell(finding, finding.detail, {})
            return finding
        self._tell(turn.found, turn.said, turn.keys)
        return turn.found

    def _answer(self, turn: _Turn) -> None:
        try:
            turn.found = self._read(self._ask())
            turn.said = turn.found.detail
        except BaseException as error:  # noqa: BLE001  # the thread's end: whatever it is, the check is not well
            self._failed(turn, error)
        finally:
            turn.done.set()

    @staticmethod
    def _read(value: object) -> Finding:
        """Return what a check answered as a finding.

        Raises:
            TypeError: If it is neither a bool nor a finding; a method in place of a property is always true.
        """
        if isinstance(value, bool):
            return Finding(value, "well" if value else "not well")
        if isinstance(value, Finding):
            return Finding(value.ok is True, _shown(value.detail), degraded=value.degraded is True)
        if inspect.iscoroutine(value):
            value.close()
        message = f"the check has to answer True, False or a Finding, not a {type(value).__name__}"
        raise TypeError(message)

    @staticmethod
    def _failed(turn: _Turn, error: BaseException) -> None:
        """Keep what may be told: the category in the answer, the redacted text in the log alone."""
        turn.found, turn.said = Finding(ok=False, detail="failed"), "failed"
        try:
            from outlast.classify import classify  # noqa: PLC0415  # only trouble needs it
            from outlast.record.keys import failure_keys  # noqa: PLC0415  # only trouble needs it
            from outlast.record.tracebacks import one_line  # noqa: PLC0415  # only trouble needs it

            failure = classify(error)
            turn.found = Finding(ok=False, detail=f"failed ({failure.category})")
            turn.said = f"failed ({failure.category}): {failure.exception_name}: {one_line(failure.message)}"
            turn.keys = failure_keys(failure)
        except BaseException:  # noqa: BLE001  # an error that cannot even be looked at
            return

    def _tell(self, finding: Finding, said: str, keys: dict[str, Any]) -> None:
        """Log what is not well, at most once a minute, and that it is well again."""
        trouble = not finding.ok or finding.degraded
        if not trouble and not self._told_trouble:
            return
        now = clock.monotonic()
        if trouble and self._told_at is not None and now - self._told_at < _QUIET:
            return
        self._told_trouble = trouble
        try:
            if not trouble:
                log.info("check %s: well again", self.name, extra={"check": self.name})
                return
            self._told_at = now
            level = logging.ERROR if not finding.ok else logging.WARNING
            log.log(level, "check %s: %s", self.name, said, extra={"check": self.name, **keys})
        except Exception:  # noqa: BLE001  # a handler that raises must not change what is found
            return


def _shown(detail: object) -> str:
    """Return a detail in one line, capped and without secrets."""
    from outlast.classify import default_classifier  # noqa: PLC0415  # knows the user's own patterns
    from outlast.record.tracebacks import one_line  # noqa: PLC0415  # as above
    from outlast.redact import safe_text  # noqa: PLC0415  # as above

    return safe_text(one_line(default_classifier().redact(str(detail))), _DETAIL_LIMIT)
