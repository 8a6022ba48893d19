"""A Celery app as a user has one; its workers are started as processes by the scene. What it is told is in the environment."""

import os
import signal
import time
from pathlib import Path

from celery import Celery, signals
from celery.concurrency.asynpool import AsynPool

import outlast
from outlast.engines.celery import attach
from outlast.errors import RateLimitError

folder = Path(os.environ["SCENE_FOLDER"])
app = outlast.App(os.environ["SCENE_URL"], lease=3.0, heartbeat=0.5, payload_limit=4000)
celery_app = Celery("program", broker=os.environ["SCENE_BROKER"], backend=os.environ["SCENE_BROKER"])
celery_app.conf.update(
    broker_connection_retry_on_startup=True,
    broker_transport_options={"visibility_timeout": 1},
    worker_prefetch_multiplier=1,
    worker_lost_wait=0.5,
)
quick = outlast.RetryPolicy(max_attempts=3, base_delay=0.05, jitter=0.0)
outlast.resource("breaks.example.com", breaker=outlast.BreakerSettings(consecutive=5))
engine = attach(celery_app, app, policy=quick, resend_after=float(os.environ.get("SCENE_RESEND_AFTER", "600")))


def note(*words):
    """Leave a line that outlives the process."""
    with (folder / "effects").open("a") as file:
        file.write(" ".join(map(str, words)) + "\n")


def runs(key):
    return sum(line.split()[0] == key for line in (folder / "effects").read_text().splitlines())


@outlast.subscribe
def told(event):
    if type(event).__name__.startswith("Task"):
        note("event", type(event).__name__, event.task_id)


@celery_app.task
def fine(key):
    note(key)
    return f"{key} is fine"


@celery_app.task
def hostile(key, member, kind):
    """Raise an error whose own code raises."""
    from hostile_errors import hostile as make

    note(key)
    raise make(member, kind)


@celery_app.task(bind=True)
def flaky(self, key, times):
    """Fail until it has run so often."""
    note(key, self.request.retries, os.getpid())
    if runs(key) < times:
        message = f"refused for {key}"
        raise ConnectionError(message)
    return runs(key)


@celery_app.task(acks_late=True)
def late(key, times=2):
    """Fail until it has run so often; its message is acknowledged afterwards."""
    note(key, os.getpid())
    if runs(key) < times:
        message = f"refused for {key}"
        raise ConnectionError(message)


@celery_app.task
def broken(key, api_token="", *more, **rest):
    """Fail for good, until somebody has mended it."""
    note(key, api_token, *more, *sorted(rest.items()))
    if not (folder / f"mended-{key}").exists():
        message = f"{key} is broken"
        raise ValueError(message)
    return f"{key} was mended"


@celery_app.task(resource="api.example.com")
def asked_to_wait(key, seconds=1.0):
    """Be told to wait the first time."""
    note(key, time.time())
    if runs(key) == 1 and seconds:
        message = "too many requests"
        raise RateLimitError(message, retry_after=seconds)
    return time.time()


@celery_app.task(autoretry_for=(ConnectionError,), retry_kwargs={"max_retries": 2, "countdown": 0})
def by_itself(key):
    note(key)
    message = "refused"
    raise ConnectionError(message)


@celery_app.task(bind=True, max_retries=1)
def by_hand(self, key):
    note(key)
    try:
        message = "refused"
        raise ConnectionError(message)
    except ConnectionError as error:
        raise self.retry(exc=error, countdown=0) from error


@celery_app.task
def calls_itself(key, depth=1):
    """Do its work in a direct call of itself; fail the first time."""
    if depth:
        return calls_itself(key, depth - 1)
    note(key)
    if runs(key) < 2:
        message = "refused"
        raise ConnectionError(message)
    return runs(key)


@celery_app.task(bind=True)
def overtaken(self, key):
    """Fail, so that there is a row; then retry by hand, and stay until another process has run that retry."""
    note(key, os.getpid())
    if runs(key) == 1:
        message = "refused"
        raise ConnectionError(message)
    if runs(key) == 2:
        again, end = self.retry(countdown=0, throw=False), time.monotonic() + 20
        while runs(key) == 2 and time.monotonic() < end:
            time.sleep(0.02)
        raise again


@celery_app.task(acks_late=True, reject_on_worker_lost=True)
def kills_its_process(key, times=99):
    note(key, os.getpid())
    if runs(key) <= times:
        os.kill(os.getpid(), signal.SIGKILL)


@celery_app.task(time_limit=1, policy=outlast.RetryPolicy(max_attempts=2, base_delay=0.05, jitter=0.0))
def endless(key):
    note(key, os.getpid())
    time.sleep(60)


@celery_app.task
def unkeepable(key):
    note(key)
    return object()


@celery_app.task
def waits(key):
    """Run until somebody lets it end."""
    note(key, os.getpid())
    while not (folder / f"go-{key}").exists():
        time.sleep(0.02)
    if runs(key) < 2:
        message = "refused"
        raise ConnectionError(message)


_PLACES = {
    "before the row": (app.store, "enqueue"),
    "before the failure": (engine.lending, "settle_attempt"),
    "after the failure": (engine.lending, "settle_attempt"),
    "before the message": (celery_app, "send_task"),
    "after the message": (celery_app, "send_task"),
    "after the start": (engine.lending, "begin"),
}


def _kill_at(place):
    """End this process, as kill -9 does, at the first time that it comes to a place."""
    target, name = _PLACES[place]
    inner, marker = getattr(target, name), folder / f"killed-{place}"

    def outer(*args, **kwargs):
        result = None if place.startswith("before") else inner(*args, **kwargs)
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(target, name, outer)


if os.environ.get("SCENE_KILL_AT"):
    signals.worker_ready.connect(lambda **_: _kill_at(os.environ["SCENE_KILL_AT"]), weak=False)
AsynPool.timers = property(lambda pool: {pool.maintain_pool: 0.2})  # Celery looks for dead processes every five seconds
