"""An explanation says which rule won, what else matched, and what happens now."""

import outlast


def test_reads_as_a_few_lines():
    assert str(outlast.explain(Exception("404 Not Found: timeout parameter missing"))) == (
        "Exception: 404 Not Found: timeout parameter missing\n"
        "  verdict   not_found, not retryable  (http, HTTP 404)\n"
        "  because   text: http 404  [text only]\n"
        "  agrees    text: not found\n"
        "  differs   invalid_parameters, by text: parameter missing\n"
        "  policy    raise it at once"
    )


def test_tells_the_hint_and_the_waits():
    text = str(outlast.explain(outlast.Evidence(http_status=429, headers={"retry-after": "999999"})))

    assert "asked     to wait 3600 s (it asked for longer)" in text
    assert "raise it with retry_after: the wait is too long to sleep through" in text
    ours = outlast.explain(outlast.errors.RetryableError("x", retry_after=7200), policy=outlast.RetryPolicy())
    assert "the wait is too long to sleep through" in ours.action
    soon = outlast.Evidence(http_status=503, headers={"retry-after": "7"})
    assert "waiting at most 7.5, 8, 9, 11 s between them" in str(outlast.explain(soon))
    halfway = outlast.Evidence(http_status=429, headers={"retry-after": "30"})
    assert "retry, 2 attempts in the 60 s the policy allows, waiting at most 30.5 s" in str(outlast.explain(halfway))
    late = outlast.Evidence(http_status=503, headers={"retry-after": "120"})
    assert "raise it with retry_after: the policy allows 60 s in all" in str(outlast.explain(late))


def test_uses_the_policy_and_the_classifier_given():
    judge = outlast.Classifier([outlast.Rule(category="data", type=TimeoutError, name="ours")])
    policy = outlast.RetryPolicy(max_attempts=9, retry_on=(TimeoutError,))
    explained = outlast.explain(TimeoutError("x"), policy=policy, classifier=judge)

    assert explained.failure.rule == "rule: ours"
    assert explained.strength is outlast.Strength.STRONG
    assert [other.category for other in explained.others] == ["network"]
    assert explained.action == "retry, 9 attempts in all, waiting 1, 1, 1, 1, 1, 1, … s between them"


def test_the_deadline_is_met_as_the_loop_meets_it():
    policy = outlast.RetryPolicy(max_attempts=9, retry_on=outlast.RETRYABLE, backoff="exponential", deadline=3)
    assert outlast.explain(TimeoutError(), policy=policy).action == (
        "retry, 2 attempts in the 3 s the policy allows, waiting 1 s between them"
    )
    assert outlast.explain(TimeoutError(), policy=policy.replace(deadline=1)).action == (
        "raise it: the policy allows 1 s in all"
    )
    asked = outlast.Evidence(http_status=503, headers={"retry-after": "3"})
    assert outlast.explain(asked, policy=policy).action == ("raise it with retry_after: the policy allows 3 s in all")


def test_decorrelated_waits_build_on_one_another():
    policy = outlast.RetryPolicy(max_attempts=4, jitter="decorrelated", max_delay=20)
    assert outlast.explain(TimeoutError(), policy=policy).action == (
        "retry, 4 attempts in all, waiting at most 3, 9, 20 s between them"
    )


def test_an_error_without_text_and_a_policy_of_one():
    text = str(outlast.explain(TimeoutError(), policy=outlast.RetryPolicy(max_attempts=1)))

    assert text.startswith("TimeoutError\n")
    assert text.endswith("raise it: the policy allows one attempt")


def test_groups_are_explained_by_their_worst_leaf():
    explained = outlast.explain(ExceptionGroup("g", [TimeoutError(), outlast.errors.AuthenticationError("no")]))

    assert explained.failure.category == "authentication"
