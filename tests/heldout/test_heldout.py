"""The held-out errors can be rebuilt without their libraries, and their labels are well formed.

No test asserts a verdict here: the set measures (`python -m tests.heldout.measure`), and rules must not be fitted to it.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from heldout.measure import Result, cases, measure, report
from heldout.rebuild import rebuild
from outlast import Category

CASES = cases()
CATEGORIES = {category.value for category in Category}


def test_the_set_is_large_enough() -> None:
    assert len(CASES) >= 300
    assert len({case["library"] for case in CASES}) >= 30
    assert len({case["id"] for case in CASES}) == len(CASES)


def test_labels_are_well_formed() -> None:
    for case in CASES:
        label = case["label"]
        assert {label["category"], *label["also"]} <= CATEGORIES, case["id"]
        assert label["category"] not in label["also"], case["id"]
        assert isinstance(label["retry"], bool), case["id"]
        assert label["retry_after"] is None or (label["retry"] and label["retry_after"] > 0), case["id"]
        assert label["reason"], case["id"]


def test_no_machine_path_was_recorded() -> None:
    text = json.dumps(CASES)
    assert "/site-packages/pip" not in text
    for place in ("/root/", "/home/", "heldout-venv"):
        assert place not in text


@pytest.mark.parametrize("subject", sorted({case["library"] for case in CASES}))
def test_errors_are_rebuilt_as_they_were(subject: str) -> None:
    for case in CASES:
        if case["library"] != subject:
            continue
        record = case["error"]
        error = rebuild(record)
        assert [f"{c.__module__}:{c.__qualname__}" for c in type(error).__mro__] == record["mro"], case["id"]
        if "{{" not in record["str"]:
            assert str(error) == record["str"], case["id"]
        assert len(error.args) == len(record["args"]), case["id"]
        assert (error.__cause__ is None) == ("__cause__" not in record), case["id"]
        for name, value in record.get("attributes", {}).items():
            if isinstance(value, int | float | bool) or value is None:
                assert getattr(error, name) == value, (case["id"], name)
        for name in record.get("properties", {}):
            getattr(error, name)


def test_relative_times_count_from_now() -> None:
    record: dict[str, Any] = {
        "class": "builtins:ValueError",
        "mro": ["builtins:ValueError", "builtins:Exception", "builtins:BaseException", "builtins:object"],
        "str": "",
        "args": ["{{epoch+60}}", {"$epoch": 60}],
    }
    error = rebuild(record)
    assert abs(int(error.args[0]) - time.time() - 60) < 5
    assert abs(error.args[1] - time.time() - 60) < 5


def test_measure_counts_with_a_stub() -> None:
    def stub(error: BaseException) -> Any:
        assert isinstance(error, BaseException)
        return SimpleNamespace(category="network", retryable=True, retry_after=None)

    results = measure(stub)
    lines = list(report(results))
    labels = Counter(case["label"]["retry"] for case in CASES)
    assert len(results) == len(CASES)
    assert any(line.startswith("wrongly retried") and f" {labels[False]} of" in line for line in lines)
    assert any(line.startswith("wrongly given up") and " 0 of" in line for line in lines)
    perfect = [
        Result(case, case["label"]["category"], case["label"]["retry"], case["label"]["retry_after"]) for case in CASES
    ]
    assert "100.0 %" in next(line for line in report(perfect) if line.startswith("category "))
