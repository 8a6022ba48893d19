"""The report on an error that a retry gave up on: its attempts, and why there is no further one."""

from itertools import count

from outlast.classify import default_classifier
from outlast.classify.safe_access import contained
from outlast.failure import Frozen
from outlast.units import format_seconds

_NOTE = "outlast: "
_MAX_NOTES = 1000  # an error with more gets none of ours
_MAX_CAUSES = 16  # a chain of causes may be a ring
_RETRIED_REASONS = frozenset({"budget", "nested"})  # even after one attempt


class FailedAttempt(Frozen):
    """One failed attempt.

    Attributes:
        number: From 1.
        exception_name: Class of what was raised.
        message: Its text, redacted and capped.
        waited: Seconds that were waited before the next attempt; None after the last.
    """

    number: int
    exception_name: str
    message: str
    waited: float | None

    def __init__(self, number: int, exception_name: str, message: str, waited: float | None) -> None:
        """Keep the fields."""
        self.__dict__.update(number=number, exception_name=exception_name, message=message, waited=waited)


class Report(Frozen):
    """How a retried call ended. It is attached to the raised error as ``error.__outlast__``.

    Attributes:
        attempts: The failed attempts.
        elapsed: Seconds until the last failure: from the start if the policy has a time limit, else from the first
            failure.
        reason: Why there is no further attempt: ``exhausted``, ``permanent``, ``deadline``, ``deferred`` (the other
            side asks for a wait that is too long to sleep), ``nested`` (an inner retry already gave up), ``off``,
            ``budget``, ``breaker`` (the circuit breaker is open), ``broken`` (the predicate or backoff function of the
            policy raised an error), ``unreadable`` (the error's own code raised while it was read).
        retry_at: With ``deferred``: when to retry, in seconds since the epoch.
        serial: The number of the report in this process.
    """

    attempts: tuple[FailedAttempt, ...]
    elapsed: float
    reason: str
    retry_at: float | None
    serial: int

    def __init__(
        self, attempts: tuple[FailedAttempt, ...], elapsed: float, reason: str, retry_at: float | None, serial: int
    ) -> None:
        self.__dict__.update(attempts=attempts, elapsed=elapsed, reason=reason, retry_at=retry_at, serial=serial)


class _ReportCounter:
    """Numbers the reports, so that an outer loop can tell an inner one's from one that is left from before.

    Attributes:
        last: The number of the newest report. A call reads it when it begins.
    """

    __slots__ = ("_count", "last")

    def __init__(self) -> None:
        self._count = count(1)
        self.last = 0

    def next(self) -> int:
        """Return the number of a new report."""
        number = next(self._count)
        self.last = max(self.last, number)  # another thread may have been faster
        return number


report_counter = _ReportCounter()


def report_of(error: BaseException) -> Report | None:
    """Return the report that a retry left on an error, or None."""
    report = contained(None, getattr, error, "__outlast__", None)
    return report if isinstance(report, Report) else None


def was_retried_inside(error: BaseException, serial: int) -> bool:
    """Return whether an inner retry, begun after the report of that number, retried an error or a cause of it.

    An inner retry that made a single attempt has multiplied nothing, and the outer one is free to go on. An error
    object that concurrent calls share may carry the report of another call, and is then not retried here.
    """
    waiting: list[BaseException | None] = [error]
    for _ in range(_MAX_CAUSES):
        if not waiting:
            return False
        link = waiting.pop(0)
        if link is None:
            continue
        report = report_of(link)
        if report is not None and report.serial > serial:
            return len(report.attempts) > 1 or report.reason in _RETRIED_REASONS
        waiting += [contained(None, getattr, link, name, None) for name in ("__cause__", "__context__")]
        if issubclass(type(link), BaseExceptionGroup):
            waiting += contained((), getattr, link, "exceptions", ())[:_MAX_CAUSES]
    return False


def attach_report(error: BaseException, report: Report) -> None:
    """Attach a report and its notes to an error, if the error allows it."""
    contained(None, _set_report, error, report)  # it may have slots or guard its attributes; the error matters more


def _set_report(error: BaseException, report: Report) -> None:
    error.__outlast__ = report  # type: ignore[attr-defined]  # an attribute of ours on a foreign object
    notes = getattr(error, "__notes__", ())
    if len(notes) <= _MAX_NOTES:
        error.__notes__ = [*(note for note in notes if not str(note).startswith(_NOTE)), *_notes(report)]


def _notes(report: Report) -> list[str]:
    lines = []
    for attempt in report.attempts[:-1]:
        waited = "" if attempt.waited is None else f", then waited {format_seconds(attempt.waited)}"
        lines.append(f"{_NOTE}attempt {attempt.number}: {attempt.exception_name}: {attempt.message}{waited}")
    number = len(report.attempts)
    tries = "1 attempt" if number == 1 else f"{number} attempts"
    lines.append(f"{_NOTE}gave up after {tries} in {format_seconds(report.elapsed)}: {report.reason}")
    return lines


def failed_attempt(number: int, name: str, text: str, waited: float | None) -> FailedAttempt:
    """Return an attempt with its text redacted."""
    return FailedAttempt(number, name, default_classifier().redact(text), waited)
