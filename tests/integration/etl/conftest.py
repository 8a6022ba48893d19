"""An ETL's surroundings: a shop on both databases, raw objects in files, an API, and a clock that nobody waits for."""

import pytest

from integration.etl_world import Api, Counting, document, new_shop
from outlast.jobs.etl import FileRawStore
from outlast.testing import fake_clock


@pytest.fixture(autouse=True)
def clock():
    with fake_clock() as clock:
        yield clock


@pytest.fixture(params=["sqlite", "postgres"])
def shop(request, tmp_path):
    server = request.getfixturevalue("postgres_server") if request.param == "postgres" else None
    shop = new_shop(request.param, tmp_path, server)
    yield shop
    shop.close()


@pytest.fixture
def raw(tmp_path):
    return Counting(FileRawStore(tmp_path / "raw"))


@pytest.fixture
def api():
    return Api(**{f"shop:{number}": document(number) for number in range(1, 4)})
