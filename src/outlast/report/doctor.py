"""What a doctor says: whether a store is well, and whether its books are right."""

from collections.abc import Mapping
from typing import NamedTuple

from outlast.ports.rows import Status

_MAX_CLOCK_SKEW = 5.0  # seconds between two clocks that disturb nobody
_LIVE = (Status.QUEUED, Status.RUNNING, Status.PARKED)
_STATUS_NAMES = {Status.FAILED: "failed for good", Status.DISCARDED: "discarded", Status.CANCELLED: "cancelled"}


class DoctorFinding(NamedTuple):
    """What one check found.

    Attributes:
        check: Its name.
        ok: Whether all is well; None for something to know that is no mistake.
        text: One line for people.
        todo: What to do about it; empty where there is nothing to do.
    """

    check: str
    ok: bool | None
    text: str
    todo: str = ""


def ledger_findings(books: Mapping[str, int], real: Mapping[str, int]) -> list[DoctorFinding]:
    """Compare the books with what is there, both of one moment.

    Args:
        books: Tasks of each status and ``dead_letters``, by the books.
        real: The same, counted.

    Returns:
        What is off, a line for each; or one line that all is well.
    """
    off = [_mismatch_finding(name, books[name], real[name]) for name in books if books[name] != real[name]]
    if real["FAILED"] != real["dead_letters"]:
        letters = _plural(real["dead_letters"], "dead letter")
        text = f"{_plural(real['FAILED'], 'task')} failed for good, and there are {letters}"
        off.append(
            DoctorFinding("pairs", ok=False, text=text, todo="Every task that failed for good has one dead letter.")
        )
    if off:
        return off
    live = sum(real[status] for status in _LIVE)
    tasks = sum(real[status] for status in Status)
    text = (
        f"{_plural(tasks, 'task')} = {real['DONE']:,} done + {real['FAILED']:,} dead + {live:,} live"
        f" + {real['CANCELLED']:,} cancelled + {real['DISCARDED']:,} discarded, as by the books"
    )
    return [DoctorFinding("ledger", ok=True, text=text)]


def _mismatch_finding(name: str, by_books: int, there: int) -> DoctorFinding:
    missing = by_books - there
    what = "dead letter" if name == "dead_letters" else "task"
    called = "" if name == "dead_letters" else f" {_STATUS_NAMES.get(Status(name), name)}"
    word = "missing" if missing > 0 else "too many"
    count = abs(missing)
    text = (
        f"{_plural(count, what)}{called} {'is' if count == 1 else 'are'} {word}: "
        f"by the books {by_books:,} {'is' if by_books == 1 else 'are'} there, counted {there:,}"
    )
    return DoctorFinding(
        "ledger",
        ok=False,
        text=text,
        todo="Rows were changed by hand, or an older version still works; doctor --mend writes the books anew.",
    )


def clock_finding(seconds: float) -> DoctorFinding:
    """Judge how far this machine's clock is from the store's.

    Args:
        seconds: By how much this machine is ahead.
    """
    if abs(seconds) <= _MAX_CLOCK_SKEW:
        return DoctorFinding("clock", ok=True, text=f"this machine and the store are {abs(seconds):.1f} s apart")
    which = "ahead of" if seconds > 0 else "behind"
    return DoctorFinding(
        "clock",
        ok=False,
        text=f"this machine is {abs(seconds):.1f} s {which} the store",
        todo="Workers go by the store's clock, so nothing is early; logs and pages will look wrong. Set the clock.",
    )


def finding_text(finding: DoctorFinding) -> str:
    """Return a finding as it is printed."""
    sign = {True: "✓", False: "✗", None: "•"}[finding.ok]
    line = f"{sign} {finding.check:<12} {finding.text}"
    return f"{line}\n  {'':<12} {finding.todo}" if finding.todo else line


def _plural(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"
