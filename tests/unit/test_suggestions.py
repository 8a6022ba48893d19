"""Rules that are proposed: what they name, what they would have matched, and that they can be loaded and do match."""

import json
import tempfile
import tomllib
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import outlast
from outlast.errors import ResourceNotFoundError
from outlast.ports.read_rows import FailureGroup
from outlast.ports.rows import Attempt
from outlast.queue.settlement import failure_note
from outlast.queue.task_failure import task_failure_of
from outlast.report.classification import guess_category, suggestions, toml_string

NOW = datetime(2026, 11, 15, tzinfo=UTC)
POLICY = outlast.RetryPolicy()


class VendorBusy(Exception):
    """Of a client that no rule describes."""


class Odd(Exception):
    def __init__(self, message, **attributes):
        super().__init__(message)
        self.__dict__.update(attributes)


def raised(error):
    try:
        raise error
    except Exception as caught:  # with its traceback, as a task's is
        return caught


def stored(*errors, task="fetch", failures=1, dead=0, **more):
    """A group as a store gives it, with an attempt for each error, newest first."""
    attempts = []
    for number, error in enumerate(errors):
        verdict = task_failure_of(raised(error), POLICY)
        note = failure_note(verdict.failure, verdict.traceback)
        attempts.append(
            Attempt(
                number, 1, "fail", "w1", NOW, NOW, note.error_type, note.error_message, note.error_category,
                note.fingerprint, None, note.traceback, json.loads(note.failure),
            )
        )  # fmt: skip
    last = attempts[-1]
    fingerprint = more.get("fingerprint", f"{last.fingerprint}{task}")
    group = FailureGroup(
        fingerprint, task, last.error_type, last.error_category, last.error_message, NOW, NOW, failures, dead
    )
    return group, attempts


def proposed(*errors, **more):
    (suggestion,) = suggestions([stored(*errors, **more)])
    (rule,) = tomllib.loads(suggestion.toml)["classify"]["rules"]
    return rule


def loaded(toml):
    """The rules of a file, read as a program reads them."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "outlast.toml"
        file.write_text(toml, "utf-8")
        return outlast.load_config(file).rules


def test_a_class_of_somebodys_own_is_named_by_its_type():
    (suggestion,) = suggestions([stored(VendorBusy("engine 7 is warming up"), failures=12, dead=3)])

    assert suggestion.toml.splitlines() == [
        "[[classify.rules]]",
        'name = "VendorBusy in fetch"',
        f'type = "{__name__}.VendorBusy"',
        '# text = "is warming up"  # narrower: only with this text',
        'category = "api_temporary"  # a guess: it says busy',
        '# category = "data"  # if a retry never helps',
    ]
    assert (suggestion.title, suggestion.category, suggestion.failures, suggestion.dead) == (
        "VendorBusy in fetch", "unknown", 12, 3,
    )  # fmt: skip
    assert suggestion.because == "Nothing about it was known."


def test_a_built_in_class_is_named_by_what_it_says():
    (suggestion,) = suggestions([stored(RuntimeError("the engine 4711 is on strike"))])

    assert suggestion.toml.splitlines()[2:] == [
        'text = "is on strike"',
        '# type = "builtins.RuntimeError"  # narrower: only this class',
        'category = "data"  # a guess: nothing in it helps; like an unknown failure, it is not retried',
        '# category = "api_temporary"  # if a retry helps',
    ]


@pytest.mark.parametrize(("error", "status"), [(Odd("odd", status_code=430), 430), (Odd("odd", status_code=700), None)])
def test_a_status_that_the_error_shows(error, status):
    rule = proposed(error)

    assert rule.get("status") == status
    assert rule["type"] == f"{__name__}.Odd"


@pytest.mark.parametrize(
    "error",
    [
        Odd("odd", status_code=430),
        Odd("odd", status_code=503),
        Odd("odd", code="SlowDown"),
        Odd("odd", sqlstate="40P01"),
        Odd("odd", errno=111),
        Odd("odd", retry_after=5),
        Odd("odd", retryable=True),
        OSError(5, "strange"),
        OSError("strange things happen"),
    ],
)
def test_what_an_error_shows_is_what_a_rule_looks_at(error):
    found = suggestions([stored(error)])
    for suggestion in found:
        (rule,) = loaded(suggestion.toml)
        assert outlast.Classifier([rule]).classify(error).rule == f"rule: {suggestion.title}"
    assert found or outlast.explain(error).strength == "strong"


@pytest.mark.parametrize("inner", [RuntimeError("connection reset by peer"), Odd("odd", status_code=503)])
def test_a_rule_for_an_error_that_wraps_another(inner):
    """What the inner one shows is not what the outer one shows."""
    error = VendorBusy("no coal for the engine")
    error.__cause__ = inner
    (suggestion,) = suggestions([stored(error)])
    (rule,) = loaded(suggestion.toml)

    assert rule.status is None
    assert outlast.Classifier([rule]).classify(error).rule == "rule: VendorBusy in fetch"


def test_words_that_tell_a_status_are_no_status_of_a_rule():
    """The rule would look for a status that the error does not carry."""
    rule = proposed(RuntimeError("backend answered: HTTP 503 Service Unavailable"))

    assert "status" not in rule
    assert rule["category"] == "api_temporary"


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        (["user alice lacks a hat today"] * 2, "user alice lacks a hat today"),
        (["user alice lacks a hat today", "user bob lacks a hat today"], "lacks a hat today"),
        (["order 17 lacks a hat"], "lacks a hat"),
        (["call https://example.org/x?a=1 for fun and games"], "for fun and games"),
        (["password=hunter2 did not do it well"], "did not do it well"),
        (["first line\nsecond longer line"], "second longer line"),
        (["two  blanks between them"], "blanks between them"),
        (['he said "hi" \\o/ loudly'], 'he said "hi"'),
        (["エンジンが 準備中です よ"], "エンジンが 準備中です よ"),
        (["x" * 5000 + " a tail"], None),
        (["a 1 b"], None),
        ([""], None),
        (["alice met bob", "carol saw dan"], None),
    ],
)
def test_which_words(messages, words):
    (suggestion,) = suggestions([stored(*map(RuntimeError, messages))])

    if words is None:
        assert suggestion.toml == ""
        assert suggestion.failures == 1
    else:
        (rule,) = tomllib.loads(suggestion.toml)["classify"]["rules"]
        assert rule["text"] == words


def test_what_a_rule_would_have_matched_is_counted():
    found = suggestions(
        [
            stored(VendorBusy("engine 7 is warming up"), task="fetch", failures=5, dead=1),
            stored(VendorBusy("no coal"), task="mail", failures=7, dead=2),
            stored(RuntimeError("the sky is falling"), failures=3),
            stored(RuntimeError("THE SKY IS FALLING, really"), task="mail", failures=2),
            stored(RuntimeError("the sky is fallingly blue"), task="x", failures=1),
        ]
    )

    assert [(each.title, each.failures, each.dead, len(each.groups)) for each in found] == [
        ("VendorBusy in mail", 12, 3, 2),
        ("RuntimeError in fetch", 5, 0, 2),
        ("RuntimeError in x", 1, 0, 1),
    ]


@pytest.mark.parametrize(
    ("error", "because"),
    [
        (RuntimeError("connection reset by peer"), "It was classified only by its text."),
        (type("ThrottledError", (Exception,), {})("x"), "It was classified by the name of its class."),
        (Odd("odd", status_code=503), "It was classified by an attribute that no documentation describes."),
        (Odd("odd", retryable=False), "It is unknown, by an attribute that no documentation describes."),
    ],
)
def test_weak_verdicts(error, because):
    (suggestion,) = suggestions([stored(error)])

    assert suggestion.because == because
    if suggestion.category != "unknown":
        assert f'category = "{suggestion.category}"  # its current category' in suggestion.toml


@pytest.mark.parametrize("error", [TimeoutError("x"), ConnectionResetError("y"), ResourceNotFoundError("z")])
def test_what_is_sure_needs_no_rule(error):
    assert suggestions([stored(error)]) == []


def test_what_a_rule_in_use_matches_is_not_proposed_again():
    groups = [stored(VendorBusy("engine 7 is warming up")), stored(RuntimeError("the engine is on strike"))]
    first, second = suggestions(groups)
    rules = loaded(f"{first.toml}\n\n{second.toml}\n")

    assert suggestions(groups, rules) == []
    assert suggestions(groups, rules[:1]) == [second]


def test_a_group_of_which_no_attempt_is_kept():
    group, _ = stored(VendorBusy("engine 7 is warming up"))
    (suggestion,) = suggestions([(group, [])])

    assert tomllib.loads(suggestion.toml)["classify"]["rules"][0]["text"] == "is warming up"


@given(
    st.text() | st.text(st.sampled_from("ab 'Z\"\\\n\t#=[]é日\u202e\x7f\x00\ud800{}*…")),
    st.lists(st.text(max_size=30), min_size=1, max_size=3),
)
@example('"""\\u0000\x7f', ["\ud800 half a pair"])
def test_every_text_is_the_same_in_toml(text, more):
    for each in (text, *more):
        told = tomllib.loads(f"value = {toml_string(each)}")["value"]
        assert told == "".join("\ufffd" if "\ud800" <= char <= "\udfff" else char for char in each)
        assert "\n" not in toml_string(each)


NAMES = st.text(min_size=1, max_size=20).filter(
    lambda name: "\0" not in name and not any("\ud800" <= c <= "\udfff" for c in name)
)


@given(
    NAMES | st.from_regex(r"[A-Za-z_]\w{0,10}", fullmatch=True),
    st.sampled_from(["vendor", "vendor.errors", "__main__", "builtins", "a-b c", "日本"]),
    st.text(max_size=80) | st.text(st.sampled_from("ab \"'\\\n\t#1=[]é日.:*…\u202e\x7f"), max_size=80) | st.lists(
        st.sampled_from(["word", "token=abc", "17", "…", "***", "https://a.b/c", 'say "hi"', "C:\\x", "# no", "e\u0301"]), max_size=12
    ).map(" ".join),
    st.sampled_from([Exception, RuntimeError, ValueError]),
    NAMES,
)  # fmt: skip
@example("Busy", "vendor", "x" * 1999 + " and so on and on", Exception, "fetch")
@example("Busy", "a b", "word " * 1000, Exception, 'fetch"\n[[classify.rules]]')
@example("hf_abcdefghijklmnop", "vendor", "secret", Exception, "fetch")
@example("Busy", "builtins", "engine is warming\r\nup", Exception, "fetch")
def test_every_proposal_can_be_loaded_and_matches_what_it_came_from(name, module, message, base, task):
    error = type(name, (base,), {"__module__": module})(message)
    group = stored(error, task=task)
    (suggestion,) = suggestions([group]) or [None]
    if suggestion is None or not suggestion.toml:
        return
    (rule,) = loaded(suggestion.toml)
    judged = outlast.Classifier([rule]).classify(error)

    assert judged.rule.startswith("rule: ")
    assert judged.category == rule.category
    assert suggestion.groups == (group[0].fingerprint,)
    assert suggestions([group], [rule]) == []


@pytest.mark.parametrize(
    ("name", "message", "status", "category"),
    [
        ("VendorBusy", "", None, "api_temporary"),
        ("VendorError", "please try again", None, "api_temporary"),
        ("X", "quota of the day is used up", None, "quota_exhausted"),
        ("X", "too many calls", None, "rate_limit"),
        ("ParseFailed", "", None, "data"),
        ("X", "name is required", None, "invalid_parameters"),
        ("X", "not allowed here", None, "access_denied"),
        ("X", "no such thing", None, "not_found"),
        ("X", "session expired", None, "authentication"),
        ("X", "the setting is off", None, "configuration"),
        ("X", "gateway timeout", None, "network"),
        ("KeyError", "'x'", None, "data"),
        ("X", "", 530, "api_temporary"),
        ("X", "", 430, "invalid_parameters"),
        ("X", "busybody", None, "data"),
    ],
)
def test_guesses(name, message, status, category):
    found, why = guess_category(name, message, status)

    assert found == category
    assert why.startswith("a guess")
