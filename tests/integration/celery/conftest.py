"""A broker for a whole run, a scene and its workers for each module."""

import logging
from contextlib import contextmanager
from itertools import count

import pytest

from integration.celery.scene import Scene
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
