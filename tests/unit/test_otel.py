"""OpenTelemetry, read with its own SDK after real work."""

import asyncio
import sys
import threading

import pytest
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import outlast
from outlast.errors import ConfigError, NetworkError, PermanentError
from outlast.observe.otel import instrument, uninstrument
from outlast.record import bus, events
from outlast.testing import failing, fake_clock

AT_ONCE = outlast.RetryPolicy(max_attempts=2, base_delay=0)


class World:
    """Providers of a program, and what they were told."""

    def __init__(self):
        self._spans, self._reader = InMemorySpanExporter(), InMemoryMetricReader()
        self.tracers, self.meters = TracerProvider(), MeterProvider([self._reader])
        self.tracers.add_span_processor(SimpleSpanProcessor(self._spans))
        self.tracer = self.tracers.get_tracer("program")

    def instrument(self, app=None):
        instrument(app, tracer_provider=self.tracers, meter_provider=self.meters)

    @property
    def spans(self):
        return list(self._spans.get_finished_spans())

    @property
    def points(self):
        """All points by name and attributes."""
        data = self._reader.get_metrics_data()
        metrics = [
            metric
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
        ]
        return {
            (metric.name, *sorted(point.attributes.items())): point
            for metric in metrics
            for point in metric.data.data_points
        }

    @property
    def values(self):
        return {key: point.value for key, point in self.points.items() if hasattr(point, "value")}


@pytest.fixture
def world():
    made = World()
    yield made
    uninstrument()
    made.meters.shutdown()
    made.tracers.shutdown()
    assert not bus.subscribers


@pytest.fixture
def app(tmp_path):
    made = outlast.App(f"sqlite:///{tmp_path}/outlast.db", policy=AT_ONCE)
    yield made
    made.close()


class TestTasks:
    def test_a_span_for_each_attempt_and_what_a_task_does_below_it(self, world, app):
        @app.task
        def greet():
            with world.tracer.start_as_current_span("greeting"):
                pass

        @app.task
        async def greet_later():
            with world.tracer.start_as_current_span("greeting later"):
                await asyncio.sleep(0)

        number, later = greet.enqueue().id, greet_later.enqueue().id
        world.instrument(app)
        app.worker().drain()
        spans = {span.name: span for span in world.spans}

        assert spans.keys() == {"task greet", "greeting", "task greet_later", "greeting later"}
        for task, inner, task_id in (("greet", "greeting", number), ("greet_later", "greeting later", later)):
            outer = spans[f"task {task}"]
            assert spans[inner].parent.span_id == outer.context.span_id
            assert outer.parent is None
            assert outer.kind is trace.SpanKind.CONSUMER
            assert outer.status.status_code is trace.StatusCode.UNSET
            assert outer.instrumentation_scope.name == "outlast"
            assert dict(outer.attributes) == {
                "outlast.task": task,
                "outlast.task_id": task_id,
                "outlast.attempt": 1,
                "outlast.outcome": "done",
            }

    def test_failures(self, world, app):
        @app.task
        def broken():
            raise ConnectionError("https://ada:hunter2@shop.example refused")

        @app.task
        def limited():
            raise outlast.errors.RateLimitError("slow down", retry_after=60)

        broken.enqueue()
        limited.enqueue()
        world.instrument(app)
        app.worker(concurrency=1).drain()
        spans = world.spans
        told = [(span.name, span.attributes["outlast.outcome"], span.status.status_code.name) for span in spans]

        assert sorted(told) == [
            ("task broken", "fail", "ERROR"),
            ("task broken", "retry", "ERROR"),
            ("task limited", "defer", "UNSET"),
        ]
        happened = {event.name: dict(event.attributes) for span in spans for event in span.events}
        assert happened.keys() == {"outlast.task_retrying", "outlast.task_failed", "outlast.task_deferred"}
        assert happened["outlast.task_deferred"]["outlast.category"] == "rate_limit"
        last = happened["outlast.task_failed"]
        assert (last["outlast.reason"], last["outlast.attempt"], last["outlast.task"]) == ("exhausted", 2, "broken")
        assert last["outlast.failure_message"] == "https://***@shop.example refused"
        assert "hunter2" not in "".join(span.to_json() for span in spans)

    def test_threads_do_not_mix_their_spans_up(self, world, app):
        together = threading.Barrier(4, timeout=30)

        @app.task
        def greet(name: str):
            together.wait()
            with world.tracer.start_as_current_span(name):
                together.wait()

        for number in range(4):
            greet.enqueue(f"span {number}")
        world.instrument(app)
        app.worker(concurrency=4).drain()
        spans = {span.context.span_id: span for span in world.spans}
        inner = [span for span in spans.values() if span.name.startswith("span ")]

        assert len({span.parent.span_id for span in inner}) == 4
        assert {spans[span.parent.span_id].name for span in inner} == {"task greet"}

    def test_a_task_that_began_before_anybody_listened_has_no_span(self, world):
        world.instrument()
        bus.publish(events.TaskEnded("late", 7, 1, 0.5, "done"))
        assert world.spans == []
        assert world.values["outlast.task_attempts", ("outlast.outcome", "done"), ("outlast.task", "late")] == 1

    def test_metrics(self, world, app):
        @app.task
        def fine():
            return None

        for _ in range(3):
            fine.enqueue()
        world.instrument(app)
        app.worker().drain()
        found = world.points

        done = ("outlast.task_attempts", ("outlast.outcome", "done"), ("outlast.task", "fine"))
        assert found[done].value == 3
        assert found["outlast.task_duration", ("outlast.task", "fine")].count == 3
        assert found["outlast.task_duration", ("outlast.task", "fine")].explicit_bounds[0] == 0.005
        assert found["outlast.up",].value == 1
        assert found["outlast.tasks", ("outlast.event", "done")].value == 3
        assert found["outlast.tasks_by_status", ("outlast.status", "DONE")].value == 3
        assert found["outlast.dead_letters",].value == 0


class TestCalls:
    def test_events_on_the_current_span(self, world):
        world.instrument()
        with fake_clock(), world.tracer.start_as_current_span("program"):
            policy = outlast.RetryPolicy(backoff="fixed", base_delay=2)
            outlast.call(failing(lambda: 1, [NetworkError("token=hunter2hunter2")]), policy=policy)
            with pytest.raises(PermanentError):
                outlast.call(failing(lambda: 1, [PermanentError("no")]))
        (span,) = world.spans
        names = [event.name for event in span.events]

        assert names == [
            "outlast.attempt_failed",
            "outlast.retrying",
            "outlast.recovered",
            "outlast.attempt_failed",
            "outlast.gave_up",
        ]
        retrying, recovered, gave_up = (dict(span.events[place].attributes) for place in (1, 2, 4))
        assert retrying["outlast.category"] == "network"
        assert (retrying["outlast.attempt"], retrying["outlast.max_attempts"], retrying["outlast.delay"]) == (
            1,
            3,
            2,
        )
        assert retrying["outlast.rule"]
        assert (recovered["outlast.attempts"], recovered["outlast.elapsed"]) == (2, 2)
        assert (gave_up["outlast.reason"], gave_up["outlast.attempts"]) == ("permanent", 1)
        assert "outlast.http_status" not in gave_up
        assert "hunter2" not in span.to_json()

    def test_without_a_span_there_is_nothing_to_add_to(self, world):
        world.instrument()
        with fake_clock():
            outlast.call(failing(lambda: 1, [NetworkError("x")]))
        assert world.spans == []
        counted = {key[0]: value for key, value in world.values.items()}
        assert counted == {"outlast.attempts_failed": 1, "outlast.retries": 1, "outlast.recoveries": 1}


class TestTheFleet:
    def test_a_store_that_is_down(self, world, app, monkeypatch):
        def down(self, **_):
            raise OSError("down")

        monkeypatch.setattr(type(app.store), "pulse", down)
        world.instrument(app)
        assert world.values == {("outlast.up",): 0}

    def test_one_collection_reads_once(self, world, app, monkeypatch):
        asked, pulse = [], type(app.store).pulse
        monkeypatch.setattr(type(app.store), "pulse", lambda self, **how: asked.append(1) or pulse(self, **how))
        world.instrument(app)
        assert world.values["outlast.up",] == 1
        assert len(asked) == 1

    def test_without_an_app_there_is_none(self, world):
        world.instrument()
        assert world.values == {}


class TestTurningItOnAndOff:
    def test_off(self, world, app):
        world.instrument(app)
        uninstrument()
        uninstrument()
        assert not bus.subscribers
        assert world.values == {}

    def test_twice_counts_once(self, world, app):
        world.instrument(app)
        world.instrument(app)
        bus.publish(events.BudgetExhausted("api"))
        assert world.values["outlast.budget_exhausted", ("outlast.resource", "api")] == 1
        assert world.values["outlast.up",] == 1

    def test_from_many_threads_at_once_counts_once(self, world):
        """A subscription that nobody ends would count everything twice."""
        barrier = threading.Barrier(8)

        def turn_on():
            barrier.wait(30)
            for _ in range(5):
                world.instrument()

        threads = [threading.Thread(target=turn_on) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        uninstrument()
        assert not bus.subscribers

    def test_to_other_providers(self, world, app):
        world.instrument(app)
        other = World()
        other.instrument(app)
        bus.publish(events.BudgetExhausted("api"))
        assert other.values["outlast.budget_exhausted", ("outlast.resource", "api")] == 1
        assert other.values["outlast.up",] == 1
        assert world.values == {}
        other.meters.shutdown()

    def test_with_the_api_alone_nothing_goes_wrong(self, app):
        """The program has set no providers."""

        @app.task
        def fine():
            return None

        fine.enqueue()
        instrument(app)
        try:
            app.worker().drain()
        finally:
            uninstrument()
        assert app.store.event_totals()["done"] == 1

    def test_a_library_that_is_missing_is_named(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "opentelemetry", None)
        with pytest.raises(ConfigError, match=r"pip install 'outlast\[otel\]'"):
            instrument()
