"""An explanation says which rule won, what else matched, and what happens now."""

import pytest

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


def _error(name, *arguments, base=Exception, **attributes):
    module, _, own = name.rpartition(".")
    error = type(own, (base,), {"__module__": module})(*arguments)
    vars(error).update(attributes)
    return error


@pytest.mark.parametrize(
    ("error", "lines"),
    [
        pytest.param(
            _error("acme_smtp.ReplyError", "451 4.7.1 greylisted", code=451, message="4.7.1 greylisted"),
            ["verdict   api_temporary, retryable  (mail, 451)", "because   SMTP 451"],
            id="a number that is not an HTTP status",
        ),
        pytest.param(
            _error("acme.LinkError", "connection failed: wrong password for user 'jobs'", base=ConnectionError),
            ["because   text: wrong password", "differs   network, by text: connection failed"],
            id="permanent words in a connection error",
        ),
        pytest.param(
            _error("acme.ApiError", "Forbidden", status_code=403, body={"error": {"code": "rate_limited"}}),
            ["because   attribute: code rate_limited", "differs   access_denied, by text: forbidden"],
            id="a reason in the body",
        ),
        pytest.param(
            _error("acme.Error", "no exchange rate limits are set on the Acme Report Server error page"),
            ["because   nothing matched"],
            id="a loose phrase",
        ),
        pytest.param(
            _error("acme.ApiError", "x", response_code=503), ["because   attribute: http 503"], id="an attribute"
        ),
        pytest.param(
            _error("acme_db.DatabaseError", "ORA-00060: deadlock detected while waiting"),
            ["because   Oracle ORA-00060", "agrees    text: Oracle ORA-00060; text: deadlock detected"],
            id="a family of codes",
        ),
        pytest.param(
            _error("acme.NotFoundError", "no object", retriable=False),
            ["because   class name: NotFoundError", "differs   unknown, by attribute: retryable is False"],
            id="a flag",
        ),
        pytest.param(_error("acme.Bad7zFile", "x"), ["because   class name: Bad7zFile"], id="malformed input"),
        pytest.param(
            _error("acme.RateLimitError", "Please try again in 46.72s"), ["asked     to wait 46.7 s"], id="a wait"
        ),
        pytest.param(
            _error("acme.ApiError", "You will regain access on 2100-12-01 at 00:00 UTC.", status_code=400),
            ["because   text about an exhausted quota", "asked     to wait 3600 s (it asked for longer)"],
            id="a quota",
        ),
        pytest.param(
            _error("acme.ApiError", "x", code="NotAThrottlingError"), ["because   nothing matched"], id="a whole code"
        ),
    ],
)
def test_each_kind_of_evidence_names_its_rule(error, lines):
    shown = str(outlast.explain(error))
    assert [line for line in lines if line not in shown] == []
