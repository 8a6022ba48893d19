"""The summary of a run, as text, JSON, or Markdown for a CI build."""

import json
import os
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from outlast.decide.gate import Counts, GateResult, count_targets
from outlast.jobs.context import redacted_id
from outlast.jobs.tally import FIGURES, RunTally
from outlast.ports.job_rows import TargetStatus

_MAX_GROUPS = 5
_STEP_SUMMARY = "GITHUB_STEP_SUMMARY"
_MARKDOWN_ESCAPES = {ord(sign): f"&#{ord(sign)};" for sign in "\\`*_{}[]<>()#+!|&~"}


@dataclass(frozen=True)
class Summary:
    """The result of a run.

    The success, failed, deferred, skipped and not attempted targets add up to the total. A resumed run reports the
    numbers of all its processes; of a process that was killed, only the results of its targets are known.

    Attributes:
        state: ``done``, ``aborted`` or ``stopped``.
        duration: Seconds that the run took; for a resumed run, without the time between its processes.
        total_is_known: Whether all targets were counted; a stream that was not read to the end has more.
        limit: Maximum number of targets of the run; None for no limit.
        figures: Other counts from handlers, besides the five of an ETL.
        groups: The largest groups of failures: size, category, exception class, message, one target.
        reasons: Why the exit code is 1.
        compared: Differences from the previous run: fixed, broken, still.
        would_do: In observe mode, the number of times that each action would have been taken.
        would_exit_code: In observe mode, the exit code that the run would have had; None in act mode.
        would: In observe mode, sentences about what would have happened.
    """

    job_id: str
    run_id: str
    entity: str | None
    env: str
    state: str
    total_targets: int
    success_targets: int
    failed_targets: int
    deferred_targets: int
    skipped_targets: int
    not_attempted: int
    diff_new_hash: int
    s3_put_success: int
    s3_put_fail: int
    db_upsert_success: int
    db_upsert_fail: int
    failure_rate: float
    exit_code: int
    duration: float
    attempts: int
    total_is_known: bool = True
    limit: int | None = None
    reasons: tuple[str, ...] = ()
    by_category: dict[str, int] = field(default_factory=dict)
    by_origin: dict[str, int] = field(default_factory=dict)
    figures: dict[str, int] = field(default_factory=dict)
    groups: tuple[dict[str, Any], ...] = ()
    compared: dict[str, int] | None = None
    would_do: dict[str, int] = field(default_factory=dict)
    would_exit_code: int | None = None
    would: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as JSON values; the ``would`` fields only in observe mode."""
        values = asdict(self)
        if self.would_exit_code is None:
            del values["would_do"], values["would_exit_code"], values["would"]
        return values

    def to_json(self) -> str:
        """Return all fields as one line of JSON."""
        return json.dumps(self.to_dict(), ensure_ascii=False)

    def to_markdown(self) -> str:
        """Return the summary as Markdown for a CI build."""
        lines = [f"### {_escape_markdown(self.job_id)}: {self._result}", ""]
        lines += [f"- {_escape_markdown(reason)}" for reason in (*self.reasons, *self.would)]
        lines += ["", "| | |", "|---|---:|"]
        lines += [f"| {name.replace('_', ' ')} | {value} |" for name, value in self._rows()]
        if self.groups:
            lines += ["", "| failures | category | error | example |", "|---:|---|---|---|"]
            lines += [
                f"| {each['size']} | {each['category']} | {_escape_markdown(each['error'])} "
                f"| {_escape_markdown(redacted_id(each['source_id']))} |"
                for each in self.groups
            ]
        return "\n".join(lines) + "\n"

    def __str__(self) -> str:
        """Return the summary as a few lines of text."""
        head = f"{self.job_id} {self.run_id}: {self._result}, exit code {self.exit_code}"
        counts = (
            f"  {count_targets(self.total_targets)} = {self.success_targets} success + {self.failed_targets} failed"
            f" + {self.deferred_targets} deferred + {self.skipped_targets} skipped"
            f" + {self.not_attempted} not attempted; failure rate {self.failure_rate:.2%}; {self.duration:.1f} s"
        )
        return "\n".join([head, counts, *(f"  {reason}" for reason in (*self.reasons, *self.would))])

    @property
    def _result(self) -> str:
        if self.would_exit_code is not None and self.exit_code == 0:
            return "observed"
        return "passed" if self.exit_code == 0 else "failed"

    def _rows(self) -> list[tuple[str, Any]]:
        names = (
            "total_targets", "success_targets", "failed_targets", "deferred_targets", "skipped_targets",
            "not_attempted", *FIGURES,
        )  # fmt: skip
        return [
            *((name, getattr(self, name)) for name in names),
            ("failure_rate", f"{self.failure_rate:.2%}"),
            ("duration", f"{self.duration:.1f} s"),
            ("exit_code", self.exit_code),
        ]


def make_summary(  # noqa: PLR0913  # the parts of a summary
    facts: dict[str, Any],
    tally: RunTally,
    counts: Counts,
    result: GateResult,
    state: str,
    duration: float,
    *,
    total_is_known: bool,
    compared: dict[str, int] | None,
) -> Summary:
    """Return the summary of a run."""
    figures = Counter(tally.figures)
    etl: dict[str, Any] = {name: figures.pop(name, 0) for name in FIGURES}
    return Summary(
        **facts,
        state=state,
        **{f"{name}_targets": getattr(counts, name) for name in ("total", *TargetStatus)},
        not_attempted=counts.not_attempted,
        **etl,
        failure_rate=result.failure_rate,
        exit_code=result.exit_code,
        duration=duration,
        attempts=tally.attempts,
        total_is_known=total_is_known,
        reasons=result.reasons,
        by_category=dict(tally.categories.most_common()),
        by_origin=dict(tally.origins.most_common()),
        figures=dict(figures),
        groups=tuple(
            _group_row(tally, fingerprint, size) for fingerprint, size in tally.groups.most_common(_MAX_GROUPS)
        ),
        compared=compared,
    )


def _group_row(tally: RunTally, fingerprint: str, size: int) -> dict[str, Any]:
    row = tally.samples[fingerprint]
    return {
        "fingerprint": fingerprint,
        "size": size,
        "category": row.category,
        "origin": row.origin,
        "error": f"{row.error_type}: {row.error_message}",
        "source_id": row.source_id,
    }


def _escape_markdown(text: object) -> str:
    """Return a text in one line, with the special characters of Markdown and HTML escaped."""
    return " ".join(str(text).split())[:300].translate(_MARKDOWN_ESCAPES)


def write_step_summary(summary: Summary) -> None:
    """Append a summary to the file in GITHUB_STEP_SUMMARY, if it is set."""
    path = os.environ.get(_STEP_SUMMARY)
    if path:
        try:
            with Path(path).open("a", encoding="utf-8") as file:
                file.write(summary.to_markdown())
        except (OSError, ValueError):  # the result of the run matters more
            return
