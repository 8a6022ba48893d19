"""Rules of your own, which come before all others."""

import errno

import pytest

from outlast import Category, Classifier, Evidence, Rule
from outlast.errors import ConfigError


class Vendor(Exception):
    pass


def chained(outer, *, cause):
    outer.__cause__ = cause
    return outer


class TestRules:
    @pytest.mark.parametrize(
        ("rule", "matching", "other"),
        [
            (Rule(category="data", type=KeyError), KeyError("x"), ValueError("x")),
            (Rule(category="data", type=(KeyError, "builtins.IndexError")), IndexError("x"), ValueError("x")),
            (Rule(category="data", type="builtins.LookupError"), KeyError("x"), ValueError("x")),
            (Rule(category="data", status=418), Evidence(http_status=418), Evidence(http_status=404)),
            (Rule(category="data", status=(418, 420)), Evidence(http_status=420), Evidence(http_status=404)),
            (Rule(category="data", code="E77"), Evidence(code="E77"), Evidence(code="E7")),
            (
                Rule(category="data", code="ECONNRESET"),
                ConnectionResetError(errno.ECONNRESET, "x"),
                OSError(errno.EPIPE, "x"),
            ),
            (Rule(category="data", code="40001"), Evidence(sqlstate="40001"), Evidence(sqlstate="40P01")),
            (Rule(category="data", text="night shift"), Exception("the Night Shift began"), Exception("nightshift")),
            (Rule(category="data", predicate=lambda error: "odd" in str(error)), Exception("odd"), Exception("even")),
            (Rule(category="data", type=ValueError, text="odd"), ValueError("odd"), ValueError("even")),
        ],
    )
    def test_conditions(self, rule, matching, other):
        judge = Classifier([rule])

        assert judge.classify(matching).category == "data"
        assert judge.classify(matching).rule == f"rule: {rule.name}"
        assert judge.classify(other).category != "data"

    def test_verdict_with_hint_and_retryable(self):
        rule = Rule(category=Category.ACCESS_DENIED, name="warming up", type=Vendor, retryable=True, retry_after=2)
        failure = Classifier([rule]).classify(Vendor("x"))

        assert (failure.category, failure.retryable, failure.retry_after) == ("access_denied", True, 2)
        assert failure.rule == "rule: warming up"

    def test_status_and_code_of_a_library_that_nobody_described(self):
        error = type("Vend", (Exception,), {"__module__": "vendor"})("x")
        error.status_code, error.code = 418, "SlowDown"
        assert Classifier([Rule(category="network", status=418)]).classify(error).category == "network"
        assert Classifier([Rule(category="network", code="SlowDown")]).classify(error).category == "network"

    def test_a_rule_reaches_the_causes(self):
        judge = Classifier([Rule(category="data", type=Vendor)])
        assert judge.classify(chained(RuntimeError("x"), cause=Vendor("y"))).category == "data"

    def test_a_predicate_that_raises_does_not_apply(self):
        judge = Classifier([Rule(category="data", predicate=lambda error: error.nothing)])
        assert judge.classify(Vendor("x")).category == "unknown"

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"category": "nope", "text": "x"}, "'nope' is not a category; choose one of: network"),
            ({"category": "data"}, "at least one condition"),
            ({"category": "data", "text": ""}, "at least one condition"),
            ({"category": "data", "type": ()}, "at least one condition"),
            ({"category": "data", "status": 42}, "42 is not an HTTP status"),
            ({"category": "data", "text": "x", "retry_after": -1}, "retry_after is -1"),
            ({"category": "data", "text": "x", "retry_after": float("nan")}, "retry_after is nan"),
            ({"category": "data", "type": "Busy"}, "or its qualified name such as"),
            ({"category": "data", "type": int}, "give an exception class"),
            ({"category": "data", "code": 404}, "use status for an HTTP status"),
            ({"category": "data", "predicate": 3}, "give a function that takes the error"),
        ],
    )
    def test_a_bad_rule_is_refused(self, settings, message):
        with pytest.raises(ConfigError, match=message):
            Rule(**settings)
