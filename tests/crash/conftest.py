"""Scenes on both databases. Those that restart PostgreSQL have a server of their own, in one process of the test run."""

import os
from contextlib import contextmanager
from itertools import count

import pytest

from conformance.places import need_postgres
from crash.scene import Scene

SOAK = os.environ.get("OUTLAST_SOAK") == "1"
_numbers = count(1)


@pytest.fixture(scope="session")
def crash_server(tmp_path_factory):
    """A PostgreSQL that may be restarted: nobody else uses it."""
    need_postgres()
    from servers.postgres import PostgresServer

    kept = {"synchronous_commit": "on"}  # what was committed outlives the server's death, though not a power cut
    folder = tmp_path_factory.mktemp("crash-postgres")
    server = PostgresServer(folder, max_connections=80, settings=kept, brief=True)
    server.start()
    yield server
    server.stop()


@pytest.fixture
def sqlite_scene(tmp_path):
    scene = Scene("sqlite", tmp_path, f"sqlite:///{tmp_path}/outlast.db")
    yield scene
    scene.end()


@contextmanager
def on_server(server, folder):
    """Make a scene in a new database."""
    name = f"scene{next(_numbers)}"
    server.execute(f"CREATE DATABASE {name}")
    scene = Scene("postgres", folder, f"{server.url.rpartition('/')[0]}/{name}")
    try:
        yield scene
    finally:
        scene.end()


@pytest.fixture
def postgres_scene(request, tmp_path):
    need_postgres()
    with on_server(request.getfixturevalue("postgres_server"), tmp_path) as scene:
        yield scene


@pytest.fixture
def restarting_scene(crash_server, tmp_path):
    """On the server that may be restarted; such tests belong to the group ``crash-postgres``."""
    with on_server(crash_server, tmp_path) as scene:
        yield scene


@pytest.fixture(params=["sqlite", "postgres"])
def scene(request):
    """A place for tasks, empty."""
    return request.getfixturevalue(f"{request.param}_scene")


@pytest.fixture(scope="session")
def soak():
    """Whether this is the long run."""
    return SOAK
