"""Laws of the judgement, whatever it is given (pitfalls 33-36)."""

import contextlib
import time

from hypothesis import given
from hypothesis import strategies as st

from outlast import Category, Classifier, Evidence, Failure, parse_retry_after, rate_limit_hint
from outlast.classify.libraries import FILES
from outlast.redact import redact

JUDGE = Classifier()

anything = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=50), st.binary(max_size=20),
    st.lists(st.integers(), max_size=3), st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3), st.builds(object),
)  # fmt: skip
NAMES = [
    "status_code", "status", "code", "errno", "sqlstate", "pgcode", "response", "request", "reason", "orig", "os_error",
    "headers", "retry_after", "outlast_category", "smtp_code", "recipients", "sqlite_errorcode", "last_exception", "returncode",
    "stderr", "url", "args", "operation_name", "last_response", "exceptions", "__cause__",
]  # fmt: skip


@st.composite
def odd_errors(draw):
    """Exceptions that claim to come from any library and carry any attributes."""
    package = draw(st.sampled_from([*FILES, "builtins", "urllib", "vendor"]))
    name = draw(
        st.sampled_from(
            ["HTTPError", "ClientError", "Error", "OperationalError", "ConnectionError", "Timeout", "DBAPIError", "X"]
        )
    )
    base = draw(st.sampled_from([Exception, OSError, ValueError, RuntimeError]))
    kind = type(name, (base,), {"__module__": f"{package}.exceptions"})
    error = kind(draw(anything))
    for attribute, value in draw(st.dictionaries(st.sampled_from(NAMES), anything, max_size=6)).items():
        with contextlib.suppress(Exception):
            setattr(error, attribute, value)
    return error


@given(odd_errors())
def test_any_error_is_a_failure_in_bounded_time(error):
    start = time.thread_time()
    failure = JUDGE.classify(error)

    assert isinstance(failure, Failure)
    assert time.thread_time() - start < 5
    assert Failure.from_json(failure.to_json()) == failure
    assert failure.retry_after is None or failure.retry_after >= 0
    list(JUDGE.readings(error))


@given(st.text())
def test_any_text_is_a_failure(text):
    failure = JUDGE.classify(Exception(text))

    failure.to_json().encode()
    assert failure.retryable == (
        failure.category in {"network", "rate_limit", "api_temporary", "database_busy", "system"}
    )


@given(
    st.recursive(
        st.sampled_from([TimeoutError(), ValueError("x"), KeyError(1)]),
        lambda inner: st.lists(inner, min_size=1, max_size=4).map(lambda each: ExceptionGroup("g", each)),
        max_leaves=20,
    )
)
def test_a_group_is_retryable_only_if_every_leaf_is(error):
    leaves = [error]
    while any(isinstance(leaf, ExceptionGroup) for leaf in leaves):
        leaves = [
            inner for leaf in leaves for inner in (leaf.exceptions if isinstance(leaf, ExceptionGroup) else [leaf])
        ]

    assert JUDGE.classify(error).retryable == all(isinstance(leaf, TimeoutError) for leaf in leaves)


@given(
    st.builds(
        Evidence,
        http_status=st.one_of(st.none(), st.integers(100, 599)),
        headers=st.dictionaries(st.text(max_size=20), st.text(max_size=20), max_size=5),
        body=st.text(max_size=100),
        credentials_sent=st.one_of(st.none(), st.booleans()),
        sqlstate=st.one_of(st.none(), st.text(max_size=6)),
        errno=st.one_of(st.none(), st.integers()),
        code=st.one_of(st.none(), st.text(max_size=200)),
        category=st.one_of(st.none(), st.sampled_from(Category)),
    )
)
def test_any_evidence_is_a_failure(evidence):
    assert isinstance(JUDGE.classify(evidence), Failure)


@given(
    st.one_of(
        st.none(),
        st.text(),
        st.integers(),
        st.floats(),
        st.from_regex(r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d( GMT)?", fullmatch=True),
    )
)
def test_parse_retry_after_never_raises_and_is_bounded(value):
    assert 0 <= parse_retry_after(value) <= 3600


@given(
    st.dictionaries(
        st.sampled_from(
            [
                "Retry-After",
                "retry-after-ms",
                "X-RateLimit-Reset",
                "RateLimit",
                "Date",
                "x-ratelimit-remaining",
                "x-ratelimit-reset-after",
            ]
        ),
        st.one_of(st.text(max_size=30), st.integers().map(str), st.floats().map(str)),
    )
)
def test_a_hint_is_bounded(headers):
    hint = rate_limit_hint(headers)

    assert hint is None or 0 <= hint.seconds <= 3600


@given(st.text())
def test_redacted_text_can_be_stored_and_redacting_twice_changes_nothing(text):
    shown = redact(text)

    shown.encode()
    assert "\x00" not in shown
    assert redact(shown) == shown
