"""The order of evidence, and errors that are built to mislead."""

import asyncio
import errno
import sys
import time

import pytest

from outlast import Classifier, Rule, Strength, classify
from outlast.errors import ConfigurationError, NetworkError, ResourceNotFoundError


class Vendor(Exception):
    pass


def chained(outer, *, cause=None, context=None):
    if cause is not None:
        outer.__cause__ = cause
    outer.__context__ = context
    return outer


class TestOrder:
    def test_own_rules_come_first(self):
        judge = Classifier([Rule(category="data", type=TimeoutError)])

        assert judge.classify(TimeoutError()).category == "data"
        assert judge.classify(TimeoutError()).rule == "rule: type TimeoutError"
        assert judge.classify(ConnectionResetError(errno.ECONNRESET, "x")).category == "network"

    def test_own_types_before_text(self):
        assert classify(NetworkError("404 not found")).category == "network"

    def test_a_stated_category_before_the_library(self):
        class Mine(ConnectionError):
            outlast_category = "quota_exhausted"
            retry_after = 30

        failure = classify(Mine("x"))
        assert (failure.category, failure.retryable, failure.retry_after) == ("quota_exhausted", False, 30)

    def test_a_stated_category_that_is_none_says_nothing(self):
        class Mine(ConnectionError):
            outlast_category = "cosmic rays"

        assert classify(Mine("x")).category == "network"

    def test_types_before_text(self):
        assert classify(TimeoutError("404 not found")).category == "network"

    def test_a_typed_cause_before_the_words_of_the_error(self):
        assert classify(chained(RuntimeError("invalid parameter"), cause=TimeoutError())).category == "network"

    def test_words_of_the_error_before_its_context(self):
        assert classify(chained(RuntimeError("quota exceeded"), context=TimeoutError())).category == "quota_exhausted"

    def test_the_context_counts_for_an_unknown_error(self):
        failure = classify(chained(RuntimeError("oops"), context=TimeoutError()))
        assert (failure.category, failure.rule) == ("network", "context: builtins.TimeoutError")

    def test_a_suppressed_context_does_not(self):
        try:
            try:
                raise TimeoutError
            except TimeoutError:
                raise RuntimeError("oops") from None
        except RuntimeError as error:
            assert classify(error).category == "unknown"

    def test_the_permanent_reading_of_a_text_wins_and_both_are_shown(self):
        """C13."""
        readings = list(Classifier().readings(Exception("quota exceeded: rate limit")))

        assert [reading.category for reading in readings] == ["quota_exhausted", "rate_limit"]
        assert all(reading.strength is Strength.TEXT for reading in readings)

    def test_unknown_is_not_retried(self):
        failure = classify(Vendor("gremlins"))
        assert (failure.category, failure.retryable, failure.rule) == ("unknown", False, "nothing matched")


class TestBugs:
    @pytest.mark.parametrize(
        "error",
        [
            KeyError("timeout"),
            AttributeError("'Client' object has no attribute 'timeout'"),
            NameError("name 'timeout' is not defined"),
            TypeError("connect() missing 1 required argument: 'connection'"),
            AssertionError("expected 200, got 503"),
        ],
    )
    def test_no_word_in_a_programming_error_makes_it_worth_a_retry(self, error):
        assert not classify(error).retryable

    def test_a_word_may_still_say_that_it_is_permanent(self):
        assert classify(TypeError("could not resolve authentication method")).category == "configuration"

    def test_what_it_interrupted_counts(self):
        assert classify(chained(KeyError("message"), context=TimeoutError())).category == "network"


class TestOwnClasses:
    def test_what_a_derived_class_carries_beats_the_built_in_it_is_derived_from(self):
        assert classify(type("VendorError", (ConnectionError,), {"status_code": 401})("x")).category == "authentication"
        assert classify(type("VendorError", (ConnectionError,), {"status_code": 503})("x")).retryable

    def test_a_class_derived_from_a_described_one_may_carry_a_status(self):
        import requests

        class Vend(requests.RequestException):
            status_code = 404

        Vend.__module__ = "vendor"
        assert classify(Vend("x")).category == "not_found"

    def test_a_retryable_error_with_a_mistyped_category_stays_retryable(self):
        class Mine(NetworkError):
            outlast_category = "netwrok"

        assert classify(Mine("x")).retryable


class TestGroups:
    def test_the_worst_leaf_decides(self):
        group = ExceptionGroup(
            "several", [TimeoutError(), ExceptionGroup("inner", [ResourceNotFoundError("x"), NetworkError("y")])]
        )
        assert classify(group).category == "not_found"

    def test_all_retryable_is_retryable(self):
        assert classify(ExceptionGroup("several", [TimeoutError(), NetworkError("y")])).retryable

    def test_an_unknown_leaf_is_worse_than_a_retryable_one(self):
        assert not classify(ExceptionGroup("several", [TimeoutError(), Vendor("?")])).retryable

    def test_a_group_as_cause(self):
        assert classify(chained(RuntimeError("x"), cause=ExceptionGroup("g", [TimeoutError()]))).category == "network"
        assert (
            classify(
                chained(RuntimeError("x"), cause=ExceptionGroup("g", [TimeoutError(), ValueError("bad")]))
            ).retryable
            is False
        )

    def test_on_top_and_as_a_cause_the_same_leaf_decides(self):
        group = ExceptionGroup("g", [ResourceNotFoundError("x"), ConfigurationError("y")])
        assert classify(group).category == "configuration"
        assert classify(chained(RuntimeError("x"), cause=group)).category == "configuration"

    def test_a_thousand_leaves_in_bounded_time(self):
        group = ExceptionGroup("many", [TimeoutError(str(number)) for number in range(1000)])
        start = time.thread_time()
        assert classify(group).category == "network"
        assert time.thread_time() - start < 2

    def test_a_deep_nest(self):
        group = ExceptionGroup("0", [TimeoutError()])
        for _ in range(500):
            group = ExceptionGroup("n", [group])
        assert classify(group).category == "network"


class TestControlFlow:
    @pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(1), GeneratorExit(), asyncio.CancelledError()])
    def test_passes_through_as_unknown(self, error):
        failure = classify(error)
        assert (failure.category, failure.retryable) == ("unknown", False)


class Unprintable(Exception):
    def __str__(self):
        raise RuntimeError("no")


class NoText(Exception):
    def __str__(self):
        return 42


class Lying(Exception):
    pass


Lying.__module__ = 42


class Raising(Exception):
    @property
    def outlast_category(self):
        raise RuntimeError("no")

    @property
    def retry_after(self):
        raise RuntimeError("no")

    @property
    def response(self):
        raise RuntimeError("no")

    errno = sqlstate = code = status_code = status = response


class Pretender(Exception):
    """Claims to be requests' HTTPError."""


Pretender.__module__ = "requests.exceptions"
Pretender.__name__ = Pretender.__qualname__ = "HTTPError"


class TestBadInput:
    """Pitfalls 14, 33-36: always a Failure."""

    @pytest.mark.parametrize(
        "error",
        [
            Unprintable(),
            NoText(),
            Lying("x"),
            Raising("x"),
            Pretender("x"),
            Exception("x" * 10_000_000),
            Exception("\x00\ud800\udfff"),
            Exception(b"\xff\xfe"),
            Exception(),
            OSError(),
            OSError("text only"),
            OSError(-5, "odd"),
            OSError(2**40, "odd"),
            OSError("ENOENT", "text for a number"),
            UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
        ],
        ids=lambda error: type(error).__name__,
    )
    def test_always_a_failure(self, error):
        start = time.thread_time()
        failure = classify(error)
        assert time.thread_time() - start < 1
        assert len(failure.message) <= 4200
        failure.to_json().encode()
        assert failure.fingerprint

    def test_cyclic_causes(self):
        one, other = Vendor("one"), Vendor("other")
        one.__cause__, other.__cause__ = other, one
        assert classify(one).category == "unknown"
        one.__context__ = other
        other.__context__ = one
        assert classify(one).category == "unknown"
        self_caused = Vendor("x")
        self_caused.__cause__ = self_caused
        assert classify(self_caused).category == "unknown"

    @pytest.mark.parametrize("thing", [None, "text", 503, object()])
    def test_what_is_neither_error_nor_evidence_is_refused_with_a_hint(self, thing):
        with pytest.raises(TypeError, match="read a response with evidence_of"):
            classify(thing)

    def test_a_list_of_rules_is_no_classifier(self):
        import outlast

        with pytest.raises(TypeError, match="put rules into Classifier"):
            outlast.use_classifier([Rule(category="data", type=KeyError)])

    def test_cycles_through_groups(self):
        leaf = Vendor("x")
        group = ExceptionGroup("g", [leaf])
        leaf.__cause__ = group
        assert classify(leaf).category == "unknown"
        assert classify(group).category == "unknown"
        leaf.__cause__, leaf.__context__ = None, group
        assert classify(leaf).category == "unknown"

    def test_groups_nested_through_causes_do_not_grow_without_bound(self):
        error = Vendor("x")
        for _ in range(40):
            error = chained(Vendor("y"), cause=ExceptionGroup("g", [error, chained(Vendor("z"), cause=error)]))
        start = time.thread_time()
        assert classify(error).category == "unknown"
        assert time.thread_time() - start < 2

    @pytest.mark.parametrize(
        "attributes",
        [
            {"__class__": property(lambda self: 1 / 0)},
            {"__getattribute__": lambda self, name: 1 / 0},
            {"__traceback__": property(lambda self: 1 / 0)},
            {
                "status_code": type(
                    "Int", (int,), {"__le__": lambda self, other: 1 / 0, "__ge__": lambda self, other: 1 / 0}
                )(503)
            },
            {"retry_after": 10**400},
            {"outlast_category": type("Odd", (), {"__hash__": lambda self: 1 / 0})()},
            {
                "__str__": lambda self: type(
                    "Text", (str,), {"lower": lambda self: 1 / 0, "__len__": lambda self: 1 / 0}
                )("x")
            },
        ],
    )
    def test_errors_that_fight_back(self, attributes):
        assert classify(type("Evil", (Exception,), attributes)("x")).retryable is False

    def test_a_metaclass_that_lies(self):
        meta = type("Meta", (type,), {"__name__": property(lambda cls: 1 / 0)})
        assert classify(meta("Evil", (Exception,), {})("x")).exception_name == "Evil"

    def test_endless_headers(self):
        import itertools

        request = type("Request", (), {"headers": itertools.count(), "url": "x"})()
        response = type("Response", (), {"status_code": 403, "headers": {}, "request": request})()
        assert classify(type("E", (Exception,), {"response": response})("x")).category == "access_denied"

    def test_out_of_file_descriptors(self):
        """The verdict is needed most when nothing can be opened: no import may stand in its way."""
        import subprocess

        code = (
            "import errno, os, resource\n"
            "from outlast import classify\n"
            "class Wrapped(Exception): pass\n"
            "resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))\n"
            "held = []\n"
            "try:\n"
            "    while True: held.append(os.open('/dev/null', os.O_RDONLY))\n"
            "except OSError as error:\n"
            "    wrapped = Wrapped('x'); wrapped.__cause__ = error\n"
            "    print(classify(error).category, classify(wrapped).category)\n"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout.split() == ["system", "system"]

    def test_a_very_long_chain(self):
        error = Vendor("0")
        for number in range(100_000):
            error = chained(Vendor(str(number)), cause=error)
        assert classify(error).category == "unknown"
        while error.__cause__ is not None:  # taken apart by hand, or its destruction recurses too deep
            error.__cause__, error = None, error.__cause__

    def test_errors_that_wrap_each_other(self):
        import urllib.error

        one = urllib.error.URLError("x")
        one.reason = one
        assert classify(one).category == "unknown"

    def test_a_class_made_anew_every_time_leaves_no_memory_behind(self):
        judge = Classifier()
        for number in range(3000):
            judge.classify(type(f"Made{number}", (Exception,), {})("x"))
        assert len(judge._infos) <= 2048

    def test_our_own_file_cannot_be_read(self, monkeypatch):
        """Out of file descriptors, the knowledge of a library cannot be loaded; the standard library's still serves."""
        from outlast.classify import libraries

        class Timeout(TimeoutError):
            pass

        Timeout.__module__ = "requests.exceptions"

        def refuse(*args):
            raise OSError(errno.EMFILE, "Too many open files")

        judge = Classifier()
        with monkeypatch.context() as patch:
            patch.setattr(libraries, "_entries", refuse)
            assert judge.classify(Timeout("x")).rule == "builtins.TimeoutError"
            assert not judge._infos
        assert judge.classify(Timeout("x")).rule == "requests.Timeout"


class TestTheCallablePackage:
    def test_the_package_is_the_function_in_every_order_of_imports(self):
        import subprocess

        for code in (
            "import outlast; outlast.classify(ValueError())",
            "import outlast.classify.retry_after, outlast; outlast.classify(ValueError())",
            "from outlast import explain, classify; classify(ValueError())",
            "from outlast.classify import classify; classify(ValueError())",
            "import outlast; outlast.explain(ValueError()); outlast.classify(ValueError())",
        ):
            subprocess.run([sys.executable, "-c", code], check=True)

    def test_an_unknown_name_is_an_attribute_error(self):
        import outlast

        with pytest.raises(AttributeError, match="no attribute 'nothing'"):
            _ = outlast.nothing
        assert "classify" in dir(outlast)
