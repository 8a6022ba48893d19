"""A Celery app in this process, ours, and what they share."""

import celery
from celery.app.task import Context

import outlast
from outlast.engines.celery import attach
from outlast.engines.celery.message_codec import HEADER, MessageAttempt, encode_call, unique_key
from outlast.ports.rows import NewTask, TaskFilter
from outlast.report.doctor import ledger_findings


class Shop:
    """A Celery app, ours, and what they share."""

    def __init__(self, url, broker):
        self.app = outlast.App(url, lease=2.0, heartbeat=0.2)
        self.store = self.app.store
        self.celery = celery.Celery("shop", broker=broker, backend=broker, set_as_current=False)
        quick = outlast.RetryPolicy(max_attempts=3, base_delay=0.05, jitter=0.0)
        self.engine = attach(self.celery, self.app, policy=quick)
        self.runs = []

        @self.celery.task(name="shop.flaky", shared=False)
        def flaky(times):
            self.runs.append(times)
            if len(self.runs) < times:
                message = "hung up"
                raise ConnectionError(message)
            return len(self.runs)

        self.flaky = flaky

    def request(self, held=None):
        """Return a call as a task sees it, of an attempt that has a row or of a first one."""
        headers = {} if held is None else {HEADER: {"task": held.task_id, "attempt": held.attempt, "retries": 0}}
        where = {"routing_key": "slow", "exchange": ""}
        return Context(id="abc", args=(1,), kwargs={}, delivery_info=where, headers=headers, retries=0)

    def row(self, **changes):
        """Add a row as a failure does."""
        text = encode_call(self.flaky, self.request(), limit=10_000, celery_retries=False)
        new = NewTask("shop.flaky", text, "celery", unique_key=unique_key("abc"))
        return self.store.enqueue([new._replace(**changes)])[0].id

    def held(self):
        """Add a row, and return its first attempt, not begun."""
        return MessageAttempt(self.row(), 1, None)

    def rows(self):
        return self.store.find(TaskFilter(limit=100))

    def is_well(self):
        return all(each.ok for each in ledger_findings(*self.store.counter_check()))
