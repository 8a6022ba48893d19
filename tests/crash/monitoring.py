"""Monitors in processes of their own, to be killed; as a script it is one of them.

What it is to do stands in its environment: ``MONITOR_URL``, ``MONITOR_NOTIFY`` (a webhook), ``MONITOR_SETTINGS`` (of the
monitor, as JSON), ``MONITOR_RULES`` (of its profile), ``MONITOR_FOLDER`` (for files by which processes wait for each
other) and ``MONITOR_AT`` (where it kills itself):

``closed``  after a cycle was ended, with its transitions and alerts, and before anything else
``sent``    after alerts were delivered, before that is noted
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import time
from itertools import count
from pathlib import Path

import outlast
from outlast.errors import ResourceNotFoundError
from outlast.observe.alert_delivery import Deliverer

_TESTS = Path(__file__).parents[1]
_numbers = count(1)


def start(scene, verb, *arguments, at="", notify="", rules=None, **settings):
    """Start a process: ``run``, ``cycle``, ``deliver`` or ``fail``; it ends with the scene."""
    from crash.processes import Child

    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([*filter(None, [os.environ.get("PYTHONPATH")]), str(_TESTS)]),
        "MONITOR_URL": scene.url,
        "MONITOR_NOTIFY": notify,
        "MONITOR_SETTINGS": json.dumps(settings),
        "MONITOR_RULES": json.dumps(rules or {}),
        "MONITOR_FOLDER": str(scene.folder),
        "MONITOR_AT": at,
    }
    child = Child([__file__, verb, *arguments], environment, scene.folder / f"monitor-{next(_numbers)}.log")
    scene.fleet.children.append(child)
    return child


def die():
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)  # the signal is on its way


def arm(store, at):
    """Put the point where the process dies where it belongs."""
    if at == "closed":
        close = store.close_cycle

        def closed(*args):
            if close(*args) is not None:
                die()

        store.close_cycle = closed
    elif at == "sent":
        store.settle_alerts = lambda results: die()


def main(verb, *arguments):
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    environment = os.environ
    notify = environment["MONITOR_NOTIFY"]
    app = outlast.App(environment["MONITOR_URL"], notify=notify or (), notify_private=True)
    at = environment["MONITOR_AT"]
    every = 3600.0 if at == "closed" else 0.1  # nobody else takes up what was written a moment ago
    app.deliverer = lambda: Deliverer(app.store, app.channels, every=every, lease=1.0)
    arm(app.store, at)
    policy = outlast.preset("feed").replace(base_delay=0.01, max_delay=0.04)
    profile = outlast.profile("feed").replace(policy=policy, **json.loads(environment["MONITOR_RULES"]))
    monitor = app.monitor(profile, **json.loads(environment["MONITOR_SETTINGS"]))
    if verb == "run":
        monitor.run()
    elif verb == "cycle":
        monitor.cycle()
    elif verb == "deliver":
        deliverer = app.deliverer()
        while app.store.alerts(waiting=True):
            deliverer.deliver()
            time.sleep(0.05)
    elif verb == "fail":
        number, name = int(arguments[0]), arguments[1]
        app.sources.get(number)
        folder = Path(environment["MONITOR_FOLDER"])
        (folder / f"ready-{name}").touch()
        while not (folder / "go").exists():
            time.sleep(0.001)
        moved = app.sources.record_failure(number, ResourceNotFoundError("gone"))
        print(f"TRANSITION {moved.before} {moved.after}" if moved else "NONE")  # noqa: T201  # for the test
    app.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
