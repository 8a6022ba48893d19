"""The stores under test. A test that takes `store` runs once for each of them."""

import pytest

from conformance.places import MemoryPlace, PostgresPlace, SqlitePlace, need_postgres


@pytest.fixture(scope="session")
def postgres_place(request):
    need_postgres()
    place = PostgresPlace(request.getfixturevalue("postgres_server"), "holdfast")
    place.open().create_schema()
    yield place
    place.close()


@pytest.fixture(params=["memory", "sqlite", "postgres"])
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
    here = MemoryPlace() if request.param == "memory" else SqlitePlace(tmp_path / "holdfast.db")
    here.open().create_schema()
    yield here
    here.close()


@pytest.fixture
def store(place):
    return place.store if place.kind == "memory" else place.opened[0]


@pytest.fixture
def another(place):
    """A second way to the same data, as another process would have it."""
    return place.open()


@pytest.fixture
def database(place):
    """The place, for tests that need a real database."""
    return place


def pytest_collection_modifyitems(config, items):
    """Leave out what a store in memory has no part in."""
    without = [
        item
        for item in items
        if "database" in getattr(item, "fixturenames", ())
        and hasattr(item, "callspec")  # other folders have fixtures of that name
        and item.callspec.params.get("place") == "memory"
    ]
    if without:
        config.hook.pytest_deselected(items=without)
        items[:] = [item for item in items if item not in without]
