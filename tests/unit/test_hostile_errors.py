"""Errors whose own code raises (pitfall 34), or that are too large to be read: judged in bounded time, and recorded."""

import asyncio
import functools
import json
import logging
import threading
import time
import tracemalloc

import httpx
import pytest

import outlast
from hostile_errors import BEYOND_EXCEPTION, JUDGED_WITHOUT, KINDS, MEMBERS, TABLE, hostile
from outlast import events
from outlast.http import AsyncRetryTransport, RetryTransport
from outlast.observe.json_logs import JsonFormatter
from outlast.ports.job_rows import TargetStatus
from outlast.queue.child_main import is_out_of_memory
from outlast.queue.task_failure import task_failure_of
from outlast.record.log_text import FORMAT_LIMIT, TRACEBACK_LIMIT, traceback_of

READ = [each for each in MEMBERS if each not in JUDGED_WITHOUT]
ONCE = outlast.BreakerSettings(consecutive=1)
POLICY = outlast.RetryPolicy(max_attempts=3, base_delay=0)


def in_thread(function, *args):
    """Return what a function returns in another thread: there, a KeyboardInterrupt is never Ctrl-C."""
    result = []

    def run():
        try:
            result.append((function(*args), None))
        except BaseException as error:
            result.append((None, error))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(30)
    value, error = result[0]
    if error is not None:
        raise error
    return value


def raised(error):
    try:
        raise error
    except Exception:
        return error


def outcome_of(function, *args):
    """Return the error that a call raises."""
    try:
        function(*args)
    except BaseException as error:
        return error
    return None


async def outcome_of_async(function):
    """Return the error that a coroutine raises; asyncio.run would ask it for its class."""
    try:
        await function()
    except BaseException as error:
        return error


def raise_again(error):
    raise error


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("member", MEMBERS)
class TestEveryMemberAndKind:
    def test_classify_and_explain(self, member, kind):
        failure = in_thread(outlast.classify, hostile(member, kind))
        assert (failure.category, failure.retryable) == ("unknown", False)
        assert failure.exception_name == "HostileError"
        if member in JUDGED_WITHOUT:
            assert not failure.unreadable
        elif kind in BEYOND_EXCEPTION:
            assert failure.unreadable
        explained = in_thread(outlast.explain, hostile(member, kind))
        assert explained.failure == failure
        assert str(explained)

    def test_traceback_and_logs(self, member, kind):
        error = in_thread(raised, hostile(member, kind))
        for chain in (False, True):
            text = in_thread(lambda chain: traceback_of(error, chain=chain), chain)
            assert "HostileError" in text
            assert "in raised" in text
        record = logging.makeLogRecord({"msg": "it failed: %s", "args": (error,), "exc_info": (None, error, None)})
        record.value = error
        line = json.loads(in_thread(JsonFormatter().format, record))
        assert line["exception_name"] == "HostileError"
        assert "in raised" in line["exception"]

    @pytest.mark.parametrize("form", ["sync", "async", "block", "node"])
    def test_calls_raise_the_error_after_one_attempt(self, member, kind, form):
        error, calls, seen = hostile(member, kind), [], []
        guard = outlast.resource(f"hostile {member} {kind} {form}", breaker=ONCE, max_concurrency=1)
        policy = POLICY.replace(resource=guard.name)

        def call():
            calls.append(1)
            raise error

        @outlast.retry(policy)
        async def call_async():
            call()

        def block():
            for attempt in outlast.attempts(policy):
                with attempt:
                    call()

        ways = {
            "sync": outlast.retry(policy)(call),
            "async": lambda: raise_again(asyncio.run(outcome_of_async(call_async))),
            "block": block,
            "node": outlast.node(retry_policy=policy.replace(retry_on=outlast.RETRYABLE))(call),
        }
        end = outlast.subscribe(seen.append, events.GaveUp)
        try:
            assert in_thread(outcome_of, ways[form]) is error
        finally:
            end()
        assert len(calls) == 1
        (gave_up,) = seen
        assert gave_up.reason == ("unreadable" if gave_up.failure.unreadable else "permanent")
        assert guard.running == 0
        assert guard.breaker.state == "closed"

    @pytest.mark.parametrize("method", ["GET", "POST"])
    def test_http_transports_raise_the_error_after_one_attempt(self, member, kind, method):
        error, seen = hostile(member, kind), []

        class Failing(httpx.MockTransport):
            def handle_request(self, request):
                raise error

            async def handle_async_request(self, request):
                raise error

        request, failing = httpx.Request(method, "https://api.test/"), Failing(lambda _: None)
        sync = RetryTransport(failing, policy=POLICY)
        asynchronous = AsyncRetryTransport(failing, policy=POLICY)
        end = outlast.subscribe(seen.append, events.GaveUp)
        try:
            assert in_thread(outcome_of, sync.handle_request, request) is error
            call = functools.partial(asynchronous.handle_async_request, request)
            assert in_thread(lambda: asyncio.run(outcome_of_async(call))) is error
        finally:
            end()
        assert len(seen) == (2 if method == "GET" else 0)  # a POST is not sent again, and is left to its caller

    def test_a_task_failure_is_values(self, member, kind):
        error = hostile(member, kind)
        found = in_thread(task_failure_of, error, POLICY)
        assert json.loads(json.dumps(found.to_dict()))["failure"]["exception_name"] == "HostileError"

    def test_functions_that_ask_the_error(self, member, kind):
        error, asked = hostile(member, kind), []

        def ask(error):
            asked.append(1)
            return bool(str(error)) and isinstance(error, TypeError)

        guard = outlast.resource(f"asked {member} {kind}", breaker=outlast.BreakerSettings(consecutive=9, counts=ask))

        def call():
            raise error

        policy = POLICY.replace(retry_on=ask, resource=guard.name)
        assert in_thread(outcome_of, outlast.retry(policy)(call)) is error
        assert asked
        assert guard.breaker.state == "closed"


@pytest.mark.parametrize("member", READ)
@pytest.mark.parametrize("form", ["sync", "async", "block"])
class TestInterruptInTheMainThread:
    def test_it_is_raised_after_the_attempt_is_recorded(self, member, form):
        seen = []
        end = outlast.subscribe(seen.append, events.AttemptFailed, events.GaveUp)
        try:
            assert isinstance(outcome_of(self.calls(member, POLICY)[form]), KeyboardInterrupt)
        finally:
            end()
        assert [type(each) for each in seen] == [events.AttemptFailed, events.GaveUp]
        assert seen[1].reason == "unreadable"

    def test_a_breaker_gets_its_permit_back_before(self, member, form):
        guard = outlast.resource(f"main {member} {form}", breaker=ONCE, max_concurrency=1)
        calls = self.calls(member, POLICY.replace(resource=guard.name))
        assert isinstance(outcome_of(calls[form]), KeyboardInterrupt)
        assert (guard.running, guard.breaker.state) == (0, "closed")

    @staticmethod
    def calls(member, policy):
        error = hostile(member, "KeyboardInterrupt")

        @outlast.retry(policy)
        def call():
            raise error

        @outlast.retry(policy)
        async def call_async():
            raise error

        def block():
            for attempt in outlast.attempts(policy):
                with attempt:
                    raise error

        return {"sync": call, "async": lambda: asyncio.run(call_async()), "block": block}


@pytest.mark.parametrize("read", [outlast.classify, outlast.explain, traceback_of])
def test_without_an_attempt_an_interrupt_in_the_main_thread_is_raised_at_once(read):
    member = "__notes__" if read is traceback_of else "__str__"
    assert isinstance(outcome_of(read, hostile(member, "KeyboardInterrupt")), KeyboardInterrupt)
    assert outcome_of(read, hostile(member, "SystemExit")) is None


def test_an_exact_type_is_judged_without_its_text():
    class Refused(outlast.errors.NetworkError):
        def __str__(self):
            raise SystemExit

    failure = outlast.classify(Refused())
    assert (failure.category, failure.retryable, failure.unreadable) == ("network", True, False)
    assert failure.message == "<Refused without a readable text>"
    assert not outlast.Failure.from_json(failure.to_json()).unreadable
    unreadable = outlast.classify(hostile("__str__", "SystemExit"))
    assert outlast.Failure.from_json(unreadable.to_json()).unreadable


@pytest.mark.parametrize("asynchronous", [False, True])
def test_targets_of_a_job_fail_one_by_one(asynchronous):
    """In the main thread, where a run handles Ctrl-C as a signal."""
    app = outlast.App("memory://")

    def handler(context, target):
        if target[0] == "hostile":
            raise hostile(*target[1:])

    async def handler_async(context, target):
        handler(context, target)

    job = app.job("hostile", max_failure_rate=1.0, policy=POLICY, key="-".join)(
        handler_async if asynchronous else handler
    )
    targets = [(what, *pair) for pair in TABLE for what in ("hostile", "good")]
    summary = job.run(targets, concurrency=1 if not asynchronous else 4)
    assert (summary.success_targets, summary.failed_targets) == (len(TABLE), len(TABLE))
    counts = app.store.target_counts(app.store.runs("hostile", 1)[0].id)
    assert counts[TargetStatus.FAILED] == len(TABLE)
    app.close()


def chain_of(number, link):
    error = None
    for _ in range(number):
        outer = ValueError("x")
        setattr(outer, link, error)
        error = outer
    return error


def group_of(depth, width):
    error = ValueError("x")
    for _ in range(depth):
        error = ExceptionGroup("g", [error] * width)
    return error


def with_notes(notes):
    error = ValueError("x")
    error.__notes__ = notes
    return error


def with_shared_causes():
    """Return a group of 2048 members that share 64 causes, each a group of 64."""
    cause = None
    for _ in range(64):
        group = ExceptionGroup("g", [ValueError(f"{number}") for number in range(64)])
        group.__cause__ = cause
        cause = group
    members = [RuntimeError("a") for _ in range(2048)]
    for each in members:
        each.__cause__ = cause
    return ExceptionGroup("wide", members)


LARGE = {
    "a million causes": lambda: chain_of(10**6, "__cause__"),
    "a million contexts": lambda: chain_of(10**6, "__context__"),
    "shared members": lambda: group_of(60, 2),
    "wide shared members": lambda: group_of(8, 50),
    "deep groups": lambda: group_of(100_000, 1),
    "shared causes": with_shared_causes,
    "a million members": lambda: ExceptionGroup("g", [ValueError("x")] * 10**6),
    "line breaks": lambda: RuntimeError("\n" * 20_000_000),
    "line breaks in a group": lambda: ExceptionGroup("g", [RuntimeError("\n" * 20_000_000)]),
    "line breaks in a note": lambda: with_notes(["\n" * 20_000_000]),
    "a million notes": lambda: with_notes(["note"] * 10**6),
}


@pytest.mark.parametrize("name", LARGE)
def test_large_errors_take_bounded_time_and_memory(name):
    """Processor time, and generous: unbounded, each of them takes from 5 s to the age of the universe."""
    error = LARGE[name]()
    record = logging.makeLogRecord({"msg": "failed", "exc_info": (type(error), error, None)})
    ways = {
        "classify": lambda: outlast.classify(error),
        "explain": lambda: str(outlast.explain(error)),
        "traceback": lambda: traceback_of(error),
        "chain": lambda: traceback_of(error, chain=True),
        "task": lambda: task_failure_of(error, POLICY),
        "memory": lambda: is_out_of_memory(error),
        "retry": lambda: outcome_of(outlast.retry(POLICY)(lambda: (_ for _ in ()).throw(error))),
        "log": lambda: JsonFormatter().format(record),
    }
    for way, read in ways.items():
        began = time.thread_time()
        read()
        assert time.thread_time() - began < 10, way
    for way in ("classify", "chain"):  # what the others consist of; measuring is slow
        tracemalloc.start()
        try:
            ways[way]()
            assert tracemalloc.get_traced_memory()[1] < 32 * 2**20, way
        finally:
            tracemalloc.stop()
    assert len(traceback_of(error, chain=True)) <= TRACEBACK_LIMIT + 100


def test_an_error_of_usual_size_is_formatted_whole():
    """Hundreds of members, a few causes, and a long text are within the limit."""
    try:
        try:
            raise ValueError("inner " * 1000)
        except ValueError as error:
            raise ExceptionGroup("many", [KeyError(number) for number in range(500)]) from error
    except ExceptionGroup as error:
        group = error
    text = traceback_of(group, chain=True)
    assert "KeyError: 14" in text
    assert "and 485 more exceptions" in text
    assert "The above exception was the direct cause" in text
    assert "unreadable or too large" in traceback_of(RuntimeError("x" * FORMAT_LIMIT))
