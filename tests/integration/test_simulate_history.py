"""A replay of recorded history, against what real workers do with a server that fails by a script.

The workers run on the test clock, so the result does not depend on the machine. The record of one policy is replayed: under the same policy, with all
outcomes hidden but those of first attempts, and under another one, which then runs for real against the same script.
"""

import http.client
import logging
import threading
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random
from typing import NamedTuple

import pytest

import outlast
from outlast import clock
from outlast.decide.breaker import Budget
from outlast.errors import NetworkError, RateLimitError
from outlast.ports.rows import NewTask, Status
from outlast.simulate.history import replay_history, replay_tasks
from outlast.testing import drain, fake_clock

TASKS, SECONDS = 320, 160
ALLOWED = 0.53  # calls per second of the limited server
FIRST = outlast.RetryPolicy(max_attempts=3, base_delay=7.0, jitter="none", max_delay=7.0)
OTHER = outlast.RetryPolicy(max_attempts=5, base_delay=4.0, backoff="linear", max_delay=16.0, jitter="none")


def down(_bucket, now):
    return 503 if 15 <= now < 120 else 200


def flapping(_bucket, now):
    return 503 if 8 <= now < 72 or 84 <= now < 152 else 200


def limited(bucket, now):
    return 200 if bucket.take(now) else 429


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self):
        with self.server.lock:
            self.server.calls += 1
            status = self.server.script(self.server.bucket, clock.now() - self.server.start)
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_args):
        """Say nothing."""


class Recorded(NamedTuple):
    tasks: list
    calls: int
    dead: int
    replay: object


def run_for_real(script, policy):
    """Run workers with a policy against a server with a script; return what the store recorded."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    server.lock, server.calls, server.script, server.bucket = threading.Lock(), 0, script, Budget(2, ALLOWED)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    app, mine = outlast.App("memory://"), threading.local()

    @app.task(resource="shop", policy=policy)
    def fetch():
        if not hasattr(mine, "connection"):
            mine.connection = http.client.HTTPConnection(*server.server_address, timeout=20)
        mine.connection.request("GET", "/")
        answer = mine.connection.getresponse()
        answer.read()
        if answer.status == 429:
            raise RateLimitError("too many requests")
        if answer.status != 200:
            raise NetworkError("unwell")

    random = Random(7)
    times = sorted(random.uniform(0, SECONDS) for _ in range(TASKS))
    if script is not limited:  # whole seconds: many tasks at once take less time here
        times = [round(each) for each in times]
    try:
        with fake_clock() as test_clock:
            server.start = test_clock.now() + 1
            app.store.enqueue(
                [NewTask(fetch.name, "{}", run_at=server.start + each, resource="shop") for each in times]
            )
            drain(app, limit=10 * TASKS)
        tasks = app.store.recorded_tasks(None, TASKS)
        since, until = (datetime.fromtimestamp(server.start + each, UTC) for each in (-60, 60))
        replay = replay_history(app.store, OTHER, since, until)
        return Recorded(tasks, server.calls, app.dead_letters.count(), replay)
    finally:
        app.close()
        server.shutdown()
        server.server_close()


def hidden(task):
    """Return a task of which only the outcome of the first attempt is known; of the others, only when they ran."""
    attempts = list(task.attempts)
    if task.status is Status.DONE and attempts:
        attempts.append(attempts[-1]._replace(started_at=task.started_at, finished_at=task.ended_at))
    kept = [each._replace(outcome="hidden", failure={}) for each in attempts[1:]]
    status = Status.DONE if not attempts else Status.RUNNING
    return task._replace(status=status, attempts=(*attempts[:1], *kept))


@pytest.mark.parametrize("script", [down, flapping, limited])
def test_a_replay_tells_what_workers_do(script, caplog):
    caplog.set_level(logging.CRITICAL, "outlast")
    record = run_for_real(script, FIRST)

    same = replay_tasks([hidden(each) for each in record.tasks], FIRST)
    other = run_for_real(script, OTHER)
    assert same.calls.median == pytest.approx(record.calls, rel=0.05)
    assert same.dead_letters.median == pytest.approx(record.dead, rel=0.05)

    predicted = record.replay
    assert (predicted.recorded.calls, predicted.recorded.dead_letters) == (record.calls, record.dead)
    for real, spread in ((other.calls, predicted.calls), (other.dead, predicted.dead_letters)):
        assert spread.low <= real <= spread.high
        assert spread.high - spread.low <= 2 * 0.25 * spread.median
