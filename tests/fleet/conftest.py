"""One PostgreSQL for all tests of fleets, which may be restarted, and a PgBouncer before it."""

from itertools import count

import pytest

from conformance.places import need_postgres
from fleet.api import Api
from fleet.scene import FleetScene

_numbers = count(1)


@pytest.fixture(scope="session")
def fleet_server(tmp_path_factory):
    """A PostgreSQL that may be restarted: such tests belong to the group ``fleet``."""
    need_postgres()
    from servers.postgres import PostgresServer

    kept = {"synchronous_commit": "on"}  # what was committed outlives the server's death, though not a power cut
    folder = tmp_path_factory.mktemp("fleet-postgres")
    server = PostgresServer(folder, max_connections=100, settings=kept, brief=True)
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def bouncer(fleet_server):
    """A PgBouncer in transaction mode whose clients have to share a few sessions."""
    from servers.pgbouncer import PgBouncer

    bouncer = PgBouncer(fleet_server, pool_size=5)
    bouncer.start()
    yield bouncer
    bouncer.stop()


@pytest.fixture
def database(fleet_server):
    """The name of an empty database."""
    name = f"fleet{next(_numbers)}"
    fleet_server.execute(f"CREATE DATABASE {name}")
    return name


@pytest.fixture
def postgres_url(fleet_server, database):
    return f"{fleet_server.url.rpartition('/')[0]}/{database}"


@pytest.fixture
def api():
    with Api() as api:
        yield api


@pytest.fixture
def scene(postgres_url, tmp_path, api):
    """A fleet on PostgreSQL."""
    scene = FleetScene(tmp_path, postgres_url, api.url)
    yield scene
    scene.end()
