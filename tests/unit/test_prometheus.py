"""Metrics for Prometheus, read with its own parser after real work."""

import gc
import os
import subprocess
import sys
import threading
import time
import weakref

import pytest
from prometheus_client import CollectorRegistry, Counter, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families

import outlast
from outlast.errors import ConfigError, NetworkError
from outlast.observe.fleet_metrics import FleetReader
from outlast.observe.metrics import MAX_NAMES, LabelValues
from outlast.observe.prometheus import exposing, exposition, metrics
from outlast.record import bus, events
from outlast.testing import failing, fake_clock

AT_ONCE = outlast.RetryPolicy(max_attempts=2, base_delay=0)


@pytest.fixture
def app(tmp_path):
    made = outlast.App(f"sqlite:///{tmp_path}/outlast.db", policy=AT_ONCE)
    yield made
    made.close()


@pytest.fixture
def registry(app):
    made = CollectorRegistry()
    end = metrics(app, registry=made)
    yield made
    end()
    assert not bus.subscribers


def parsed(text):
    """Return all samples by name and labels."""
    families = text_string_to_metric_families(text.decode() if isinstance(text, bytes) else text)
    return {(each.name, *sorted(each.labels.items())): each.value for family in families for each in family.samples}


def read(registry):
    return parsed(generate_latest(registry))


def work(app):
    @app.task
    def fine():
        return None

    @app.task
    async def fine_too():
        return None

    @app.task
    def broken():
        raise ConnectionError("refused")

    for _ in range(3):
        fine.enqueue()
    fine_too.enqueue()
    broken.enqueue()
    app.worker().drain()


def test_after_real_work(app, registry):
    work(app)
    app.tasks.pause("mail")
    found = read(registry)

    assert found["outlast_up",] == 1
    assert found["outlast_tasks_total", ("event", "enqueued")] == 5
    assert found["outlast_tasks_total", ("event", "done")] == 4
    assert found["outlast_tasks_total", ("event", "retried")] == 1
    assert found["outlast_tasks_total", ("event", "failed")] == 1
    assert found["outlast_tasks_by_status", ("status", "DONE")] == 4
    assert found["outlast_dead_letters",] == 1
    assert found["outlast_oldest_ready_seconds",] == 0
    assert found["outlast_paused_queues",] == 1
    assert found["outlast_sources", ("state", "healthy")] == 0
    assert found["outlast_task_attempts_total", ("outcome", "done"), ("task", "fine")] == 3
    assert found["outlast_task_attempts_total", ("outcome", "done"), ("task", "fine_too")] == 1
    assert found["outlast_task_attempts_total", ("outcome", "retry"), ("task", "broken")] == 1
    assert found["outlast_task_attempts_total", ("outcome", "fail"), ("task", "broken")] == 1
    about = (("category", "network"), ("reason", "exhausted"), ("task", "broken"))
    assert found["outlast_tasks_failed_total", *about] == 1
    assert found["outlast_task_duration_seconds_bucket", ("le", "+Inf"), ("task", "fine")] == 3
    assert found["outlast_task_duration_seconds_count", ("task", "fine")] == 3


def test_calls(app, registry):
    with fake_clock():
        outlast.call(failing(lambda: 1, [NetworkError("a")]), policy=outlast.RetryPolicy(backoff="fixed", base_delay=2))
        with pytest.raises(NetworkError):
            outlast.call(failing(lambda: 1, [NetworkError("b")] * 9), policy=AT_ONCE)
    found = read(registry)
    names = {dict(key[1:])["call"] for key in found if key[0] == "outlast_attempts_failed_total"}
    (name,) = names

    assert found["outlast_attempts_failed_total", ("call", name), ("category", "network")] == 3
    assert found["outlast_retries_total", ("call", name), ("category", "network")] == 2
    assert found["outlast_give_ups_total", ("call", name), ("category", "network"), ("reason", "exhausted")] == 1
    assert found["outlast_recoveries_total", ("call", name)] == 1
    assert found["outlast_retry_delay_seconds_sum", ("category", "network")] == 2
    buckets = [
        found["outlast_retry_delay_seconds_bucket", ("category", "network"), ("le", le)] for le in ("1.0", "2.5")
    ]
    assert buckets == [1, 2]


def test_the_openmetrics_form_is_valid_too(app, registry):
    work(app)
    families = {each.name: each for each in parse_openmetrics(generate_openmetrics(registry).decode())}

    assert families["outlast_tasks"].type == "counter"
    assert families["outlast_tasks_by_status"].type == "gauge"
    assert families["outlast_task_duration_seconds"].type == "histogram"


def test_whatever_stands_in_a_name_the_text_can_be_read(app, registry):
    odd = 'a"b\\c\nd\udcff\x00 é'
    bus.publish(events.BudgetExhausted(odd))
    ((_, label),) = [key for key in read(registry) if key[0] == "outlast_budget_exhausted_total"]

    assert label == ("resource", 'a"b\\c\nd?\ufffd é')


class TestLabels:
    def test_tasks_are_the_apps_own(self, app, registry):
        @app.task
        def mine():
            return None

        for name in ("mine", "theirs", "", "yet another"):
            bus.publish(events.TaskRetrying(name, 1, 1, 0, outlast.classify(NetworkError("x"))))
        found = read(registry)

        assert found["outlast_tasks_retried_total", ("category", "network"), ("task", "mine")] == 1
        assert found["outlast_tasks_retried_total", ("category", "network"), ("task", "other")] == 3

    def test_names_are_few(self, app, registry):
        for number in range(MAX_NAMES + 50):
            bus.publish(events.CooledDown(f"host-{number}", 1, "", capped=False))
        counted = {key: value for key, value in read(registry).items() if key[0] == "outlast_cooldowns_begun_total"}

        assert len(counted) == MAX_NAMES + 1
        assert counted["outlast_cooldowns_begun_total", ("resource", "other")] == 50

    @pytest.mark.parametrize(
        ("name", "shown"),
        [
            ("shop.orders.fetch", "shop.orders.fetch"),
            ("GET https://api.example.com/users/17?page=3", "GET api.example.com"),
            ("POST http://me:hunter2@10.0.0.1:8080/x", "POST 10.0.0.1:8080"),
            ("x" * 500, "x" * 200),
        ],
    )
    def test_what_is_called(self, name, shown):
        assert LabelValues().name("call", name) == shown

    def test_paths_of_one_host_take_one_name(self):
        values = LabelValues()
        for number in range(1000):
            values.name("call", f"GET https://api.example.com/users/{number}")

        assert values.name("call", "mine") == "mine"

    def test_without_an_app_tasks_are_names_like_others(self):
        values = LabelValues()

        assert [values.task(f"task-{number}") for number in range(102)][-3:] == ["task-99", "other", "other"]


class Down:
    def pulse(self, **_):
        raise OSError("postgres://bob:hunter2pw@db/x is down")

    def event_totals(self):
        raise AssertionError("not asked")


class Hanging:
    def __init__(self):
        self.asked = 0
        self.gate = threading.Event()

    def pulse(self, **_):
        self.asked += 1
        self.gate.wait(30)
        raise OSError("at last")


class TestAStoreThatIsDown:
    def test_says_so_and_all_else_is_told(self, app, registry, monkeypatch, caplog):
        bus.publish(events.BudgetExhausted("api"))
        monkeypatch.setattr(type(app.store), "pulse", Down().pulse)
        found = read(registry)
        read(registry)

        fleet = [key for key in found if key[0] in {"outlast_up", "outlast_tasks_total", "outlast_dead_letters"}]
        assert fleet == [("outlast_up",)]
        assert found["outlast_up",] == 0
        assert found["outlast_budget_exhausted_total", ("resource", "api")] == 1
        told = [record for record in caplog.records if record.name == "outlast.metrics"]
        assert len(told) == 1
        assert "hunter2pw" not in caplog.text
        assert told[0].error_category == outlast.classify(OSError("x is down")).category.value

    def test_one_that_hangs_is_asked_once_and_waited_for_in_bounded_time(self):
        store = Hanging()
        fleet = FleetReader(store, timeout=0.05)
        try:
            assert [fleet.read() for _ in range(5)] == [None] * 5
            assert store.asked == 1
            begun = [each for each in threading.enumerate() if each.name == "outlast-metrics"]
            assert len(begun) == 1
        finally:
            store.gate.set()
        begun[0].join(10)
        assert fleet.read() is None
        assert store.asked == 2

    def test_those_who_ask_at_once_share_an_answer(self, app):
        asked = []
        gate, store = threading.Event(), app.store

        class Counting:
            def pulse(self, **how):
                asked.append(1)
                gate.wait(10)
                return store.pulse(**how)

            def event_totals(self):
                return store.event_totals()

        fleet = FleetReader(Counting())
        first, second = fleet._start_read(), fleet._start_read()
        gate.set()
        assert first[0] is second[0]
        assert first[0].result(10).books == store.event_totals()
        assert len(asked) == 1

    def test_an_answer_is_kept_where_that_is_asked_for(self, app):
        fleet = FleetReader(app.store, keep=60)

        assert fleet.read() is fleet.read()
        assert FleetReader(app.store).read() is not None

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
    def test_a_fork_waits_for_nobody(self):
        store = Hanging()
        fleet = FleetReader(store, timeout=30)
        thread = threading.Thread(target=fleet.read, daemon=True)
        thread.start()
        until = time.monotonic() + 10
        while not store.asked and time.monotonic() < until:
            time.sleep(0.001)
        child = os.fork()
        if child == 0:
            store.gate.set()
            os._exit(7 if fleet.read() is None and store.asked == 2 else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        store.gate.set()
        thread.join(10)


class TestRegistering:
    def test_registering_reads_nothing(self, monkeypatch, app):
        monkeypatch.setattr(type(app.store), "pulse", Hanging().pulse)
        metrics(app, registry=CollectorRegistry(auto_describe=True))()

    def test_twice_is_refused(self, app, registry):
        with pytest.raises(ConfigError, match="already"):
            metrics(app, registry=registry)

    def test_it_ends(self, app):
        registry = CollectorRegistry()
        end = metrics(app, registry=registry)
        end()
        end()
        assert not bus.subscribers
        assert read(registry) == {}
        metrics(app, registry=registry)()

    def test_importing_does_not_load_the_library(self):
        code = (
            "import sys, outlast, outlast.observe.prometheus, outlast.observe.otel, outlast.app; outlast.App;"
            "sys.exit(int('prometheus_client' in sys.modules or 'opentelemetry' in sys.modules))"
        )
        assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0

    def test_a_library_that_is_missing_is_named(self, app, monkeypatch):
        monkeypatch.setitem(sys.modules, "prometheus_client", None)
        for ask in (metrics, exposition):
            with pytest.raises(ConfigError, match=r"pip install 'outlast\[metrics\]'"):
                ask(app)
        with pytest.raises(ConfigError, match="metrics"), exposing(app):
            pass


class TestExposition:
    def test_its_own_registry(self, app):
        with exposing(app) as told:
            work(app)
            body, kind = told()
            assert exposition(app)[0].startswith(b"# HELP outlast_up")
        assert kind.startswith("text/plain")
        assert parsed(body)["outlast_task_attempts_total", ("outcome", "done"), ("task", "fine")] == 3
        assert not bus.subscribers

    def test_the_registry_that_was_given_with_all_in_it(self, app, registry):
        Counter("shop_orders", "Orders.", registry=registry).inc()
        with exposing(app) as told:
            assert parsed(told()[0])["shop_orders_total",] == 1
        assert parsed(exposition(app)[0])["outlast_up",] == 1

    def test_without_anything_before(self, app):
        try:
            assert parsed(exposition(app)[0])["outlast_up",] == 1
            assert parsed(exposition(app)[0])["outlast_up",] == 1
        finally:
            from outlast.observe.prometheus import _registrations

            _registrations[app].end()
        assert not bus.subscribers

    def test_it_keeps_no_app(self):
        app = outlast.App("memory://")
        metrics(app, registry=CollectorRegistry())()
        gone = weakref.ref(app)
        del app
        gc.collect()
        assert gone() is None
