"""The tables: made once, safely, and never used by an Outlast that does not know them."""

import threading

import pytest

from conformance.acting import add, claim, ids, live_counts, register, settle
from conformance.places import drop_table
from outlast.errors import SchemaError
from outlast.ports.rows import Kind


@pytest.fixture
def blank(database):
    """A place without tables."""
    here = database.blank()
    yield here
    here.close()


def test_it_is_there(store):
    store.check_schema()
    assert store.create_schema() == store.create_schema() >= 1


def test_making_it_twice_keeps_what_is_there(store):
    (number,) = add(store)
    store.create_schema()
    assert store.get(number).id == number


def test_a_new_place(blank):
    store = blank.open()
    version = store.create_schema()
    assert version >= 1
    store.check_schema()
    assert live_counts(store) == {}
    assert blank.open().create_schema() == version


def test_missing_tables(blank):
    """A file makes its own; a server is told by whom it is to be set up."""
    store = blank.open()
    if blank.kind == "sqlite":
        store.check_schema()
        add(store)
        return
    with pytest.raises(SchemaError, match="outlast db init") as caught:
        store.check_schema()
    assert caught.value.found == 0


def test_two_at_once(blank):
    """Pitfall 54."""
    stores = [blank.open() for _ in range(6)]
    versions: list[object] = []
    barrier = threading.Barrier(len(stores))

    def create(mine):
        barrier.wait()
        try:
            versions.append(mine.create_schema())
        except BaseException as error:
            versions.append(error)

    threads = [threading.Thread(target=create, args=(each,)) for each in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert versions == [versions[0]] * len(stores)
    assert isinstance(versions[0], int)
    register(stores[0])
    (number,) = add(stores[1])
    stores[2].check_schema()
    (claimed,) = claim(stores[3])
    assert settle(stores[4], claimed, Kind.DONE) == []
    assert stores[5].get(number).status == "DONE"


def test_an_old_outlast_on_newer_tables_stops(blank):
    """Pitfall 54."""
    known = blank.open().create_schema()
    connection = blank.connect()
    connection.execute(
        "UPDATE schema_version SET version = 999 WHERE version = (SELECT max(version) FROM schema_version)"
    )
    connection.commit()
    connection.close()
    with pytest.raises(SchemaError, match="upgrade") as caught:
        blank.open().check_schema()
    assert (caught.value.found, caught.value.known) == (999, known)


def test_what_is_closed_can_be_used_again_or_says_so(store, place):
    mine = place.open()
    (number,) = add(mine)
    mine.close()
    mine.close()
    register(store)
    assert ids(claim(store)) == [number]


@pytest.mark.parametrize("table", ["dead_letter_queue", "resource_slots"])
def test_a_missing_table_is_named_with_what_to_do(blank, table):
    store = blank.open()
    store.create_schema()
    store.check_schema()
    drop_table(blank, table)
    with pytest.raises(SchemaError) as raised:
        store.check_schema()
    assert str(raised.value) == (
        f"the table {table} is missing from the database; restore a backup, or drop the other Outlast tables, "
        "schema_version included, and create all of them with: outlast db init"
    )
