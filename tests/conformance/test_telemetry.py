"""Figures for Prometheus are the same whatever the store."""

from prometheus_client.parser import text_string_to_metric_families

import outlast
from outlast.observe.metrics import FLEET_METRICS
from outlast.observe.prometheus import exposing


def test_figures_of_the_fleet(store):
    app = outlast.App(store, policy=outlast.RetryPolicy(max_attempts=2, base_delay=0))

    @app.task
    def fine():
        return None

    @app.task
    def broken():
        raise ConnectionError("refused")

    for _ in range(3):
        fine.enqueue()
    broken.enqueue()
    with exposing(app) as told:
        app.worker().drain()
        fine.enqueue(delay=60)
        families = {each.name: each for each in text_string_to_metric_families(told()[0].decode())}
    found = {
        (sample.name, *sample.labels.values()): sample.value for each in families.values() for sample in each.samples
    }

    assert families.keys() >= {metric.family for metric in FLEET_METRICS.values()}
    assert found["outlast_up",] == 1
    events = {key[1]: value for key, value in found.items() if key[0] == "outlast_tasks_total" and value}
    assert events == {"enqueued": 5, "done": 3, "retried": 1, "failed": 1}
    statuses = {key[1]: value for key, value in found.items() if key[0] == "outlast_tasks_by_status" and value}
    assert statuses == {"QUEUED": 1, "DONE": 3, "FAILED": 1}
    assert found["outlast_dead_letters",] == 1
    assert found["outlast_oldest_ready_seconds",] == 0
