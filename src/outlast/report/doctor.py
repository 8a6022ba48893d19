"""Findings of ``outlast doctor``: whether a store's counters match its rows, and whether the clocks agree."""

from collections.abc import Mapping
from typing import NamedTuple

from outlast.ports.rows import Status
from outlast.report.text_format import counted

_MAX_CLOCK_SKEW = 5.0  # seconds between two clocks that do no harm
_LIVE = (Status.QUEUED, Status.RUNNING, Status.PARKED)
_STATUS_NAMES = {Status.FAILED: "failed for good", Status.DISCARDED: "discarded", Status.CANCELLED: "cancelled"}


class DoctorFinding(NamedTuple):
    """Result of one check.

    Attributes:
        check: Name of the check.
        text: The result in one line.
        todo: What to do about it; may be empty.
        ok: Whether the check passed; None for information.
    """

    check: str
    text: str
    todo: str = ""
    ok: bool | None = True


def ledger_findings(books: Mapping[str, int], real: Mapping[str, int]) -> list[DoctorFinding]:
    """Return where the counters differ from the rows, or one finding that they match.

    Args:
        books: Tasks of each status and ``dead_letters``, by the counters.
        real: The same, counted in the tables at the same time.
    """
    off = [_mismatch_finding(name, books[name], real[name]) for name in books if books[name] != real[name]]
    if real["FAILED"] != real["dead_letters"]:
        dead_letters = counted(real["dead_letters"], "dead letter")
        text = f"{counted(real['FAILED'], 'task')} failed for good, but there are {dead_letters}"
        off.append(DoctorFinding("pairs", text, "Every task that failed for good must have a dead letter.", ok=False))
    if off:
        return off
    live = sum(real[status] for status in _LIVE)
    tasks = sum(real[status] for status in Status)
    text = (
        f"{counted(tasks, 'task')} = {real['DONE']:,} done + {real['FAILED']:,} dead + {live:,} live"
        f" + {real['CANCELLED']:,} cancelled + {real['DISCARDED']:,} discarded; the counters match"
    )
    return [DoctorFinding("ledger", text)]


def _mismatch_finding(name: str, by_counter: int, in_tables: int) -> DoctorFinding:
    what, status = "dead letter", ""
    if name != "dead_letters":
        what, status = "task", f" {_STATUS_NAMES.get(Status(name), name)}"
    word = "missing" if by_counter > in_tables else "too many"
    count = abs(by_counter - in_tables)
    text = (
        f"{counted(count, what)}{status} {'is' if count == 1 else 'are'} {word}: "
        f"the counter says {by_counter:,}, the tables have {in_tables:,}"
    )
    todo = "Rows were changed by hand, or an older version still runs; doctor --repair recounts the counters."
    return DoctorFinding("ledger", text, todo, ok=False)


def clock_finding(seconds: float) -> DoctorFinding:
    """Return whether this machine's clock is close enough to the store's.

    Args:
        seconds: How far this machine is ahead, in seconds; negative if it is behind.
    """
    if abs(seconds) <= _MAX_CLOCK_SKEW:
        return DoctorFinding("clock", f"this machine and the store are {abs(seconds):.1f} s apart")
    text = f"this machine is {abs(seconds):.1f} s {'ahead of' if seconds > 0 else 'behind'} the store"
    todo = "Workers use the store's clock, so no task runs early, but logs and pages look wrong. Set the clock."
    return DoctorFinding("clock", text, todo, ok=False)


def finding_text(finding: DoctorFinding) -> str:
    """Return a finding as printed: one line, or two if there is something to do."""
    sign = {True: "✓", False: "✗", None: "•"}[finding.ok]
    line = f"{sign} {finding.check:<12} {finding.text}"
    return f"{line}\n  {'':<12} {finding.todo}" if finding.todo else line
