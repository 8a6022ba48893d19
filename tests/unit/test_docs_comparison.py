"""The comparison is true: every cell has a source, our column names what exists and is tested, peers do what was run."""

import ast
import asyncio
import functools
import importlib
import inspect
import operator
import re
from contextlib import nullcontext

import click
import httpx
import pytest

import outlast
from doc_pages import DOCS, ROOT, read
from outlast.cli import cli
from outlast.testing import fake_clock

PAGE = read("comparison/index.md")
TABLES = {"Retry libraries": 6, "Queues and engines for Python": 7, "Queues for other languages": 3}
SOURCES = dict(re.findall(r"^\[(\w+)\]: (\S+)$", PAGE, re.MULTILINE))
LINKED = re.compile(r"\[[^\]]+\](?:\[(\w+)\]|\(([^)]+)\))")
MOST_WORDS = 4000

CLAIMS = {
    "Retry libraries": {
        "retried by default": ["outlast.RETRYABLE", "tests/unit/test_forms.py"],
        "HTTP status": ["outlast.classify", "tests/unit/test_classifier.py"],
        "`Retry-After`": ["outlast.parse_retry_after", "tests/unit/test_retry_after.py"],
        "attempts by default": ["outlast.retry", "test_our_defaults"],
        "deadline by default": ["outlast.RetryPolicy", "test_our_defaults"],
        "jitter by default": ["outlast.RetryPolicy", "test_our_defaults"],
        "3 attempts around 3": ["test_three_attempts_around_three", "tests/unit/test_nesting.py"],
        "retry budget": [
            "outlast.Budget",
            "outlast.App.limit",
            "tests/integration/test_limits_fleet.py::test_retries_keep_to_the_budget_of_all_workers_together",
        ],
        "circuit breaker": [
            "outlast.BreakerSettings",
            "tests/fleet/test_breakers.py::test_what_one_has_opened_is_open_in_the_other",
        ],
        "async": ["outlast.retry", "tests/unit/test_loops_async.py"],
        "a call that succeeds": ["test_the_time_of_a_call_is_the_measured_one"],
    },
    "Queues and engines for Python": {
        "retried by default": ["outlast.App.task", "tests/conformance/test_worker.py"],
        "`Retry-After`": ["outlast.errors.RateLimitError", "tests/fleet/test_cooldowns.py"],
        "jitter by default": ["outlast.preset", "test_our_defaults"],
        "time limit": ["outlast.TaskOptions", "tests/conformance/test_task_options.py::test_a_timeout_of_one_call"],
        "failed tasks": ["outlast dlq list", "tests/conformance/test_dead_letters.py"],
        "replay": [
            "outlast dlq replay",
            "tests/conformance/test_replays.py::test_one_then_ten_then_the_rest",
            "tests/crash/test_canary_killed.py::test_killed_it_goes_on",
        ],
        "worker killed": ["tests/crash/test_lost_workers.py::test_within_the_lease_across_machines"],
        "poison pill": ["tests/crash/test_poison.py::test_the_poison_alone_becomes_a_dead_letter"],
        "circuit breaker shared": [
            "outlast breakers open",
            "tests/fleet/test_breakers.py::test_what_one_has_opened_is_open_in_the_other",
        ],
        "cooldown per host": [
            "outlast cooldowns end",
            "outlast.http.RetryTransport",
            "tests/fleet/test_cooldowns.py::test_a_429_to_one_process_stops_all_of_them",
        ],
        "rate limit": [
            "outlast.App.limit",
            "outlast limits",
            "tests/integration/test_limits_fleet.py::test_a_rate_is_kept_by_all_workers_together",
        ],
        "needs": ["outlast db init", "test_an_app_needs_no_other_server"],
        "dashboard": ["outlast web", "outlast.web.dashboard"],
        "simulator": ["outlast.simulate", "outlast simulate"],
        "handlers": ["outlast.App.task", "test_our_handlers_are_sync_and_async"],
    },
}
"""What stands behind each cell of our column: public names, commands and tests."""


def table(heading):
    """The rows of a table by their first cell: the other cells."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")]
    return {row[0]: row[1:] for row in rows[1:]}


CELLS = [(heading, row, cell) for heading in TABLES for row, cells in table(heading).items() for cell in cells]


def test_the_tables_are_complete():
    for heading, columns in TABLES.items():
        assert {len(cells) for cells in table(heading).values()} == {columns}


@pytest.mark.parametrize(("heading", "row", "cell"), CELLS)
def test_a_fact_has_a_source(heading, row, cell):
    assert cell == "–" or re.fullmatch(rf"(?:{LINKED.pattern}(?:, )?)+", cell), f"{heading}, {row}: {cell}"


def test_sources_are_defined_and_used():
    used = {label for label, _ in LINKED.findall(PAGE) if label}

    assert used == set(SOURCES)


@pytest.mark.parametrize("source", SOURCES.values())
def test_a_source_of_a_repository_is_a_page_of_one_commit(source):
    host, _, path = source.removeprefix("https://").partition("/")

    assert (
        source == "#what-was-read-and-run" or host != "github.com" or re.match(r"[^/]+/[^/]+/blob/[0-9a-f]{40}/.", path)
    )


@pytest.mark.parametrize("heading", CLAIMS)
def test_our_column_links_to_our_pages(heading):
    for row, cells in table(heading).items():
        assert all(path and not path.startswith("http") for _, path in LINKED.findall(cells[0])), row


@pytest.mark.parametrize("heading", CLAIMS)
def test_every_claim_of_ours_is_backed(heading):
    assert list(CLAIMS[heading]) == list(table(heading))


@pytest.mark.parametrize(
    "backing", sorted({each for rows in CLAIMS.values() for all_ in rows.values() for each in all_})
)
def test_what_backs_a_claim_exists(backing):
    if backing.startswith("test_"):
        assert backing in globals()
    elif backing.startswith("tests/"):
        file, _, name = backing.partition("::")
        tests = {each.name for each in ast.walk(ast.parse((ROOT / file).read_text("utf-8"))) if hasattr(each, "name")}
        assert name in tests or (not name and any(each.startswith("test_") for each in tests))
    elif " " in backing:
        command = cli
        for name in backing.split()[1:]:
            command = command.get_command(click.Context(command), name)
        assert command is not None
    else:
        module, _, name = backing.partition(".")
        if backing.startswith(("outlast.http.", "outlast.web.")):
            module, _, name = backing.rpartition(".")
        assert operator.attrgetter(name)(importlib.import_module(module))


def test_the_pages_stay_short():
    assert sum(len(page.read_text("utf-8").split()) for page in DOCS.glob("comparison/*.md")) <= MOST_WORDS


# what we do


def refuse(calls):
    def refused():
        calls.append(1)
        raise ConnectionResetError("hung up")

    return refused


def calls_of(retry):
    """How often a function is called that three attempts surround, and three attempts those."""
    calls = []
    with pytest.raises(ConnectionResetError):
        retry(retry(refuse(calls)))()
    return len(calls)


def cells_of(row, heading="Retry libraries"):
    header = re.search(rf"## {heading}\n\n\| \|(.+)\|\n", PAGE)[1]
    return dict(zip((name.strip() for name in header.split("|")), table(heading)[row], strict=True))


def text_of(row, project):
    return re.match(r"\[([^\]]+)\]", cells_of(row)[project])[1]


def test_our_defaults():
    calls = []
    with fake_clock() as clock, pytest.raises(ConnectionResetError):
        outlast.retry(refuse(calls))()
    assert text_of("attempts by default", "Outlast") == str(len(calls))
    assert 0 < sum(clock.waits) < 60
    assert len(set(clock.waits)) > 1

    def slow():
        clock.advance(40)
        raise ConnectionResetError("hung up")

    with fake_clock() as clock, pytest.raises(ConnectionResetError) as caught:
        outlast.retry(slow)()
    assert outlast.report_of(caught.value).reason == "deadline"
    assert text_of("deadline by default", "Outlast") == "60 s"
    assert outlast.preset("worker").jitter == "full"


def test_three_attempts_around_three():
    with fake_clock():
        calls = calls_of(outlast.retry(outlast.RetryPolicy(max_attempts=3)))

    assert text_of("3 attempts around 3", "Outlast") == f"{calls} calls"


def test_our_handlers_are_sync_and_async():
    app = outlast.App("memory://")
    done = []

    @app.task
    def sync() -> None:
        done.append("sync")

    @app.task
    async def coroutine() -> None:
        await asyncio.sleep(0)
        done.append("async")

    sync.enqueue()
    coroutine.enqueue()
    app.worker().drain()

    assert sorted(done) == ["async", "sync"]


def test_an_app_needs_no_other_server(tmp_path):
    app = outlast.App(f"sqlite:///{tmp_path}/outlast.db")
    app.create_schema()

    assert sum(app.tasks.counts().values()) == 0


def test_the_time_of_a_call_is_the_measured_one():
    """Half as much again, or as much less, is what another machine or run may give."""
    results = (ROOT / "benchmarks" / "RESULTS.md").read_text("utf-8")
    for project, cell in cells_of("a call that succeeds").items():
        name = "outlast.retry, types" if project == "Outlast" else project
        measured = float(re.search(rf"^\| success: {name} \| ([\d.]+) µs", results, re.MULTILINE)[1])
        written = float(re.search(r"([\d.]+) µs", cell)[1])
        assert measured / 1.5 <= written <= measured * 1.5, f"{project}: {measured} µs"


# what others do, where they are installed


def three_of_tenacity():
    tenacity = pytest.importorskip("tenacity")
    return tenacity.retry(stop=tenacity.stop_after_attempt(3), reraise=True, sleep=lambda _: None)


def three_of_stamina():
    return pytest.importorskip("stamina").retry(
        on=ConnectionError, attempts=3, wait_initial=0, wait_jitter=0, wait_max=0
    )


def three_of_backoff():
    backoff = pytest.importorskip("backoff")
    return backoff.on_exception(backoff.constant, ConnectionError, max_tries=3, jitter=None, interval=0)


def three_of_redress():
    redress = pytest.importorskip("redress")
    retry = redress.Retry(classifier=redress.default_classifier, strategy=lambda _: 0.0, max_attempts=3)
    return lambda function: functools.partial(redress.Policy(retry=retry).call, function)


def three_of_opnieuw():
    opnieuw = pytest.importorskip("opnieuw")
    return opnieuw.retry(retry_on_exceptions=ConnectionError, max_calls_total=3)


@pytest.mark.parametrize("project", ["tenacity", "stamina", "redress", "backoff", "opnieuw"])
def test_others_multiply(project):
    retry = globals()[f"three_of_{project}"]()
    at_once = pytest.importorskip("opnieuw.test_util").retry_immediately() if project == "opnieuw" else nullcontext()

    with at_once:
        assert text_of("3 attempts around 3", project) == str(calls_of(retry))


@pytest.mark.parametrize(
    ("project", "path", "attempts", "seconds"),
    [
        ("stamina", "stamina.retry", "attempts", "timeout"),
        ("redress", "redress.Retry", "max_attempts", "deadline_s"),
        ("backoff", "backoff.on_exception", "max_tries", "max_time"),
        ("opnieuw", "opnieuw.retry", "max_calls_total", "retry_window_after_first_call_in_seconds"),
    ],
)
def test_the_defaults_of_others(project, path, attempts, seconds):
    parameters = inspect.signature(getattr(pytest.importorskip(project), path.partition(".")[2])).parameters
    most, limit = parameters[attempts].default, parameters[seconds].default

    assert text_of("attempts by default", project) == ("no limit" if most is None else str(most))
    assert text_of("deadline by default", project) == ("none" if limit is None else f"{limit:g} s")


def test_tenacity_retries_everything_without_end_and_at_once():
    tenacity = pytest.importorskip("tenacity")
    defaults = tenacity.Retrying()

    assert defaults.stop is tenacity.stop_never
    assert isinstance(defaults.wait, tenacity.wait_none)
    assert isinstance(defaults.retry, tenacity.retry_if_exception_type)


def test_what_redress_makes_of_a_status():
    redress = pytest.importorskip("redress")
    extras, client = importlib.import_module("redress.extras"), importlib.import_module("redress.contrib.httpx")
    request = httpx.Request("GET", "https://shop.test/")
    response = httpx.Response(429, headers={"retry-after": "7"}, request=request)
    error = httpx.HTTPStatusError("429", request=request, response=response)

    for classifier in (redress.default_classifier, extras.http_retry_after_classifier):
        verdict = classifier(error)
        assert getattr(verdict, "klass", verdict) == redress.ErrorClass.UNKNOWN
    judged = client.default_result_classifier(response)
    assert (judged.klass, judged.retry_after_s) == (redress.ErrorClass.RATE_LIMIT, 7)


@pytest.mark.filterwarnings("ignore:coroutine:RuntimeWarning")
def test_celery_runs_no_coroutine():
    celery = pytest.importorskip("celery")
    shop = celery.Celery("shop", set_as_current=False)
    shop.conf.update(task_always_eager=True, broker_url="memory://", result_backend="cache+memory://")

    @shop.task(name="shop.fetch")
    async def fetch():
        return 1

    result = fetch.apply().result
    assert inspect.iscoroutine(result)
    result.close()


def test_pgqueuer_refuses_a_function_that_is_not_async():
    queuer = pytest.importorskip("pgqueuer").PgQueuer.in_memory()

    with pytest.raises(TypeError, match="async"):
        queuer.entrypoint("fetch")(lambda job: None)


def test_procrastinate_retries_nothing_by_default():
    procrastinate = pytest.importorskip("procrastinate")
    from procrastinate.testing import InMemoryConnector

    app = procrastinate.App(connector=InMemoryConnector())
    task = app.task(name="fetch")(lambda: None)

    assert task.retry_strategy is None
