"""The summary of a run: figures that add up, for people, for programs and for a build's page."""

import json
import os
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from outlast.decide.gate import Counts, GateResult
from outlast.jobs.context import redacted_id
from outlast.jobs.tally import RunTally

FIGURES = ("diff_new_hash", "s3_put_success", "s3_put_fail", "db_upsert_success", "db_upsert_fail")
"""What the steps of an ETL count; zero where a job is none."""
_MAX_GROUPS = 5
_STEP_SUMMARY = "GITHUB_STEP_SUMMARY"
_MARKDOWN_ESCAPES = {ord(sign): f"&#{ord(sign)};" for sign in "\\`*_{}[]<>()#+!|&~"}


@dataclass(frozen=True)
class Summary:
    """How a run ended.

    Success, failed, deferred, skipped and not attempted add up to the total.

    Attributes:
        state: ``done``, ``aborted`` or ``stopped``.
        total_is_known: Whether all targets were counted; a stream that was not read to its end has more.
        figures: What handlers have counted beside the five of an ETL.
        groups: The largest groups of failures: size, category, class, text, one target.
        reasons: Why the exit code is 1.
        compared: How it differs from the run before: fixed, broken, still.
        would_do: How often each thing would have been done, where the job was only observed.
        would_exit_code: The exit code that it would have had then; None where the job has acted.
        would: What would have happened, for people.
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
        """Return all of it as JSON-ready values; what would have been done only where the job was observed."""
        values = asdict(self)
        if self.would_exit_code is None:
            del values["would_do"], values["would_exit_code"], values["would"]
        return values

    def to_json(self) -> str:
        """Return it as one line of JSON."""
        return json.dumps(self.to_dict(), ensure_ascii=False)

    def to_markdown(self) -> str:
        """Return it as a page for a build's summary."""
        verdict = self._verdict
        lines = [f"### {_escape_markdown(self.job_id)}: {verdict}", ""]
        lines += [f"- {_escape_markdown(reason)}" for reason in (*self.reasons, *self.would)]
        lines += ["", "| | |", "|---|---:|"]
        lines += [f"| {name.replace('_', ' ')} | {value} |" for name, value in self._rows()]
        if self.groups:
            lines += ["", "| failures | category | what | for instance |", "|---:|---|---|---|"]
            lines += [
                f"| {each['size']} | {each['category']} | {_escape_markdown(each['error'])} "
                f"| {_escape_markdown(shown)} |"
                for each in self.groups
                for shown in [redacted_id(each["source_id"])]
            ]
        return "\n".join(lines) + "\n"

    def __str__(self) -> str:
        """Return a few lines for people."""
        head = f"{self.job_id} {self.run_id}: {self._verdict}, exit code {self.exit_code}"
        counts = (
            f"  {self.total_targets} targets = {self.success_targets} success + {self.failed_targets} failed"
            f" + {self.deferred_targets} put off + {self.skipped_targets} skipped"
            f" + {self.not_attempted} not attempted; failure rate {self.failure_rate:.2%}; {self.duration:.1f} s"
        )
        return "\n".join([head, counts, *(f"  {reason}" for reason in (*self.reasons, *self.would))])

    @property
    def _verdict(self) -> str:
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


def make_summary(  # noqa: PLR0913  # what is known of the run
    facts: dict[str, Any],
    tally: RunTally,
    counts: Counts,
    verdict: GateResult,
    state: str,
    duration: float,
    *,
    total_is_known: bool,
    compared: dict[str, int] | None,
) -> Summary:
    """Put a summary together."""
    figures = Counter(tally.figures)
    etl: dict[str, Any] = {name: figures.pop(name, 0) for name in FIGURES}
    return Summary(
        **facts,
        state=state,
        total_targets=counts.total,
        success_targets=counts.success,
        failed_targets=counts.failed,
        deferred_targets=counts.deferred,
        skipped_targets=counts.skipped,
        not_attempted=counts.not_attempted,
        **etl,
        failure_rate=verdict.failure_rate,
        exit_code=verdict.exit_code,
        duration=duration,
        attempts=tally.attempts,
        total_is_known=total_is_known,
        reasons=verdict.reasons,
        by_category=dict(tally.categories.most_common()),
        by_origin=dict(tally.origins.most_common()),
        figures=dict(figures),
        groups=tuple(_group_row(tally, mark, size) for mark, size in tally.groups.most_common(_MAX_GROUPS)),
        compared=compared,
    )


def _group_row(tally: RunTally, mark: str, size: int) -> dict[str, Any]:
    row = tally.samples[mark]
    return {
        "fingerprint": mark,
        "size": size,
        "category": row.category,
        "origin": row.origin,
        "error": f"{row.error_type}: {row.error_message}",
        "source_id": row.source_id,
    }


def _escape_markdown(text: object) -> str:
    """Return a text that means nothing in Markdown or HTML, in one line."""
    return " ".join(str(text).split())[:300].translate(_MARKDOWN_ESCAPES)


def write_step_summary(summary: Summary) -> None:
    """Add a summary to the page of a build, where a build has asked for one."""
    path = os.environ.get(_STEP_SUMMARY)
    if path:
        try:
            with Path(path).open("a", encoding="utf-8") as file:
                file.write(summary.to_markdown())
        except (OSError, ValueError):  # the run is over, and its verdict matters more
            return
