"""Compare the labels of the held-out errors with what Outlast says: `python -m tests.heldout.measure`.

`python -m tests.heldout.measure --only groq/` takes the cases whose id begins so; `--without a,b` leaves libraries out.
"""
# ruff: noqa: T201 (it prints its report)

from __future__ import annotations

import argparse
import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .rebuild import rebuild

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

FOLDER = Path(__file__).parent / "cases"
CLOSE = 2.0
"""Seconds by which a found wait may differ from the stated one."""


@dataclass(frozen=True)
class Result:
    """One case, with its label and the verdict on it."""

    case: dict[str, Any]
    category: str
    retryable: bool
    retry_after: float | None

    @property
    def label(self) -> dict[str, Any]:
        return self.case["label"]  # type: ignore[no-any-return]

    @property
    def is_right_category(self) -> bool:
        return self.category in (self.label["category"], *self.label["also"])

    @property
    def is_exact_category(self) -> bool:
        return bool(self.category == self.label["category"])

    @property
    def is_right_retry(self) -> bool:
        return bool(self.retryable == self.label["retry"])

    @property
    def is_wait_found(self) -> bool:
        return self.retry_after is not None and abs(self.retry_after - self.label["retry_after"]) <= CLOSE


def cases(prefix: str = "") -> list[dict[str, Any]]:
    """Read the cases whose id begins so."""
    found: list[dict[str, Any]] = []
    for path in sorted(FOLDER.glob("*.json")):
        found += [case for case in json.loads(path.read_text()) if case["id"].startswith(prefix)]
    return found


def measure(classify: Callable[[BaseException], Any], prefix: str = "", without: Iterable[str] = ()) -> list[Result]:
    """Classify every case; `classify` returns what has `category`, `retryable` and `retry_after`."""
    results = []
    for case in cases(prefix):
        if case["library"] in without:
            continue
        verdict = classify(rebuild(case["error"]))
        category = getattr(verdict.category, "value", verdict.category)
        results.append(Result(case, category, bool(verdict.retryable), verdict.retry_after))
    return results


def report(results: list[Result]) -> Iterable[str]:
    """The figures, then the misses as a table."""
    total = len(results)
    if not total:
        yield "no cases"
        return
    libraries = len({result.case["library"] for result in results})
    wrongly_retried = [r for r in results if r.retryable and not r.label["retry"]]
    wrongly_given_up = [r for r in results if not r.retryable and r.label["retry"]]
    stated = [r for r in results if r.label["retry_after"] is not None]
    yield f"{total} errors of {libraries} libraries"
    for name, count, among in (
        ("category", sum(r.is_right_category for r in results), total),
        ("category, first label only", sum(r.is_exact_category for r in results), total),
        ("retry or not", sum(r.is_right_retry for r in results), total),
        ("wrongly retried", len(wrongly_retried), total),
        ("wrongly given up", len(wrongly_given_up), total),
        ("retry_after found of stated", sum(r.is_wait_found for r in stated), len(stated)),
        (
            "retry_after found, none stated",
            sum(r.retry_after is not None and r.label["retry_after"] is None for r in results),
            total,
        ),
    ):
        yield f"{name:32} {count:5} of {among:5}  {100 * count / max(among, 1):5.1f} %"
    yield ""
    misses = [
        r
        for r in results
        if not (r.is_right_category and r.is_right_retry and (r.label["retry_after"] is None or r.is_wait_found))
    ]
    yield f"{'case':44} {'label':30} {'verdict':30} {'wait':>12}  error"
    for r in misses:
        mark = "! retried" if r in wrongly_retried else "! given up" if r in wrongly_given_up else ""
        expected = f"{r.label['category']} {'retry' if r.label['retry'] else 'no'}"
        said = f"{r.category} {'retry' if r.retryable else 'no'}"
        wait = "" if r.label["retry_after"] is None else f"{r.label['retry_after']}/{r.retry_after}"
        name = r.case["error"]["class"].rpartition(":")[2]
        yield f"{r.case['id']:44} {expected:30} {said:30} {wait:>12}  {mark:10} {name}: {r.case['error']['str'][:110]!r}"
    yield ""
    yield "misses by category: " + ", ".join(
        f"{name} {count}" for name, count in Counter(r.label["category"] for r in misses).most_common()
    )


def main() -> None:
    import outlast

    parser = argparse.ArgumentParser(description="Compare the labels of the held-out errors with what Outlast says.")
    parser.add_argument("--only", default="", help="beginning of the ids of the cases")
    parser.add_argument("--without", default="", help="libraries to leave out, separated by commas")
    options = parser.parse_args()
    for line in report(measure(outlast.classify, options.only, options.without.split(","))):
        print(line)


if __name__ == "__main__":
    main()
