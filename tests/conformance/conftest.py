"""The stores under test. A test that takes `store` runs once for each of them."""

import pytest

from conformance.places import PostgresPlace, SqlitePlace, need_postgres


@pytest.fixture(scope="session")
def postgres_place(request):
    need_postgres()
    place = PostgresPlace(request.getfixturevalue("postgres_server"), "outlast")
    place.open().create_schema()
    yield place
    place.close()


@pytest.fixture(params=["sqlite", "postgres"])
def place(request, tmp_path):
    """Where a store's data is, with its tables and nothing in them."""
    if request.param == "postgres":
        shared = request.getfixturevalue("postgres_place")
        shared.clear()
        more = len(shared.opened)
        yield shared
        for store in shared.opened[more:]:
            store.close()
        del shared.opened[more:]
        return
    here = SqlitePlace(tmp_path / "outlast.db")
    here.open().create_schema()
    yield here
    here.close()


@pytest.fixture
def store(place):
    return place.opened[0]


@pytest.fixture
def another(place):
    """A second way to the same data, as another process would have it."""
    return place.open()


@pytest.fixture
def database(place):
    """The place, for tests that look at its tables."""
    return place
