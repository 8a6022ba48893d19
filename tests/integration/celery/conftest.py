"""A broker for a whole run, a scene and its workers for each module."""

import json
import logging
from contextlib import contextmanager
from itertools import count

import pytest
from celery.contrib.testing.worker import start_worker

from integration.celery.scene import LONG, Scene
from integration.celery.shop import Shop
from servers.redis import RedisServer

_databases = count()


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.parent.name == "celery":
            item.add_marker(pytest.mark.needs("redis-server"))


@pytest.fixture(autouse=True)
def _same_logs_as_before():
    """Give the root logger its level and handlers back: a Celery worker in this process takes it for its own."""
    root = logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    yield
    root.setLevel(level)
    root.handlers[:] = handlers


@pytest.fixture(scope="session")
def broker():
    server = RedisServer()
    server.start()
    yield server
    server.stop()


def address(server):
    return f"redis://:{server.password}@{server.host}:{server.port}/{next(_databases) % 16}"


@pytest.fixture
def scene(broker, tmp_path):
    made = Scene(tmp_path, address(broker))
    yield made
    made.end()


@pytest.fixture(scope="module")
def shared(broker, tmp_path_factory):
    """A scene that all tests of a module share, with one worker in one process."""
    made = Scene(tmp_path_factory.mktemp("celery"), address(broker))
    made.start("solo", by_command=True)
    yield made
    made.workers[0].stop()
    made.check_books()
    made.end()


@pytest.fixture(scope="module")
def forked(broker, tmp_path_factory):
    """The same, with a pool of two processes."""
    made = Scene(tmp_path_factory.mktemp("celery"), address(broker))
    made.start("prefork", "-c", "2")
    yield made
    made.workers[0].stop()
    made.check_books()
    made.end()


@pytest.fixture
def shop(broker, tmp_path):
    made = Shop(f"sqlite:///{tmp_path}/shop.db", address(broker))
    yield made
    made.celery.close()
    made.app.close()


@pytest.fixture
def waiting(broker, shop):
    """Return the messages of a queue in the broker."""

    def waiting(queue):
        database = int(shop.celery.conf.broker_url.rpartition("/")[2])
        with broker.client(db=database) as client:
            return [json.loads(each) for each in client.lrange(queue, 0, -1)]

    return waiting


@pytest.fixture
def working(shop):
    """Have a Celery worker in a thread."""
    with start_worker(shop.celery, pool="solo", perform_ping_check=False, shutdown_timeout=LONG) as worker:
        yield worker


@contextmanager
def postgres_scene(broker, folder, server):
    """Make a scene in a new database."""
    number = next(_databases)
    server.execute(f"CREATE DATABASE celery{number}")
    made = Scene(folder, address(broker), f"{server.url.rpartition('/')[0]}/celery{number}")
    try:
        yield made
    finally:
        made.end()
