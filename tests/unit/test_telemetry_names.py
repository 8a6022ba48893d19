"""docs/reference/telemetry.md has every name that is told, and no other: compared with what real libraries were given."""

import dataclasses
import logging
import re
from functools import partial
from pathlib import Path

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import CollectorRegistry

import outlast
from doc_pages import read, table
from outlast.observe.json_logs import JsonFormatter
from outlast.observe.metrics import BUCKETS, FLEET_METRICS, MEASURED_EVENTS, METRICS, PROCESS_METRICS
from outlast.observe.otel import SPAN_EVENTS, instrument, uninstrument
from outlast.observe.prometheus import metrics
from outlast.record import bus, events

PAGE = read("reference/telemetry.md")
FAILURE = outlast.Failure(
    outlast.Category.API_TEMPORARY, True, outlast.Origin.HTTP, 503, exception_name="E", message="m", rule="r"
)
VALUES = {"str": "x", "int": 1, "float": 1.5, "float | None": 1.5, "bool": True, "Failure": FAILURE}
KINDS = [getattr(events, name) for name in events.__all__]
EVENTS = [kind for kind in KINDS if kind is not events.Event]
E9 = ["job_id", "run_id", "env", "job_start_at", "entity", "source_id", "attempt", "max_attempts"]


def made(kind):
    """Return an event of a kind, with something in each field."""
    types = {field.name: getattr(field.type, "__name__", str(field.type)) for field in dataclasses.fields(kind)}
    return kind(**{name: VALUES[type_] for name, type_ in types.items()})


rows = partial(table, PAGE)


def names(cell):
    return tuple(re.findall(r"`([\w.]+)`", cell))


def first_names(title):
    return [names(row[0])[0] for row in rows(title)]


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """All events, told to both libraries in full; and what they were given."""
    app = outlast.App(f"sqlite:///{tmp_path_factory.mktemp('telemetry')}/outlast.db")
    registry, reader, exporter = CollectorRegistry(), InMemoryMetricReader(), InMemorySpanExporter()
    tracers, meters = TracerProvider(), MeterProvider([reader])
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    end = metrics(app, registry=registry)
    instrument(app, tracer_provider=tracers, meter_provider=meters)
    ends = [events.TaskStarted, *(kind for kind in EVENTS if kind not in {events.TaskStarted, events.TaskEnded})]
    for kind in [*ends, events.TaskEnded]:
        bus.publish(made(kind))
    families = list(registry.collect())
    scopes = [scope for each in reader.get_metrics_data().resource_metrics for scope in each.scope_metrics]
    end()
    uninstrument()
    app.close()
    return families, [metric for scope in scopes for metric in scope.metrics], exporter.get_finished_spans()


def _documented(column):
    """Return kind, labels and text of each metric by the name in a column of the page."""
    listed = [*rows("Metrics of the fleet"), *rows("Metrics of a process")]
    return {names(row[column])[0]: (row[2], names(row[3]), row[4]) for row in listed}


def test_the_metrics_of_prometheus(told):
    families, _, _ = told
    given = {}
    for family in families:
        name = f"{family.name}_total" if family.type == "counter" else family.name
        labels = {key for sample in family.samples for key in sample.labels} - {"le"}
        given[name] = (family.type, labels, family.documentation)
    documented = _documented(0)

    assert {name: (kind, set(labels), text) for name, (kind, labels, text) in documented.items()} == given
    assert list(documented) == [metric.prometheus for metric in METRICS.values()]
    assert all(family.samples for family in families)


def test_the_metrics_of_opentelemetry(told):
    _, given, _ = told
    found = {
        metric.name: ({key for point in metric.data.data_points for key in point.attributes}, metric.description)
        for metric in given
    }
    documented = {
        name: ({f"outlast.{label}" for label in labels}, text) for name, (_, labels, text) in _documented(1).items()
    }

    assert documented == found
    assert {metric.unit for metric in given} == {"", "s"}


def test_the_order_of_labels():
    documented = _documented(0)
    assert [labels for _, labels, _ in documented.values()] == [metric.labels for metric in METRICS.values()]


def test_names_are_such_as_prometheus_wants():
    for metric in METRICS.values():
        assert re.fullmatch(r"outlast_[a-z_]+", metric.prometheus)
        assert metric.prometheus.endswith("_total") is (metric.kind == "counter")
        assert metric.prometheus.endswith("_seconds") is (metric.unit == "s")
    families = [metric.family for metric in METRICS.values()]
    assert len(set(families)) == len(families)
    assert FLEET_METRICS.keys().isdisjoint(PROCESS_METRICS)


def test_labels():
    assert {label for metric in METRICS.values() for label in metric.labels} == set(first_names("Labels"))


def test_buckets():
    assert ", ".join(f"{bound:g}" for bound in BUCKETS) in PAGE


def test_every_event_is_counted_but_the_start_of_what_has_an_end():
    assert set(EVENTS) - MEASURED_EVENTS.keys() == {events.TaskStarted}


def test_spans_and_their_events(told):
    _, _, (span,) = told
    found = {event.name: {key.removeprefix("outlast.") for key in event.attributes} for event in span.events}
    documented = {names(row[0])[0]: set(names(row[2])) for row in rows("Span events")}

    assert documented == found
    assert first_names("Span events") == [name for name, _ in SPAN_EVENTS.values()]
    assert span.name == "task x"
    assert all(f"`{key}`" in PAGE for key in span.attributes)
    used = set().union(*found.values()) | {key.removeprefix("outlast.") for key in span.attributes}
    assert used == set(first_names("Attributes"))


def test_the_keys_of_a_line():
    try:
        raise ValueError("x")
    except ValueError as error:
        info = (ValueError, error, error.__traceback__)
    record = logging.makeLogRecord({"msg": "x", "exc_info": info, "stack_info": "here"})
    import json

    written = json.loads(JsonFormatter().format(record))

    assert written.keys() - set(first_names("Log keys")) == set(first_names("JSON lines"))


def test_log_keys():
    assert {*E9, *FAILURE.log_keys()} <= set(first_names("Log keys"))


def test_loggers():
    root = Path(outlast.__file__).parent
    used = set()
    for file in root.rglob("*.py"):
        used |= set(re.findall(r'getLogger\("(outlast[\w.]*)"\)', file.read_text("utf-8")))
    listed = re.search(r"^Loggers are (.*?);", PAGE, re.MULTILINE | re.DOTALL)[1]

    assert set(names(listed)) == used
