"""Without fetching, and without writing: records applied anew from raw objects, and dry runs."""

from datetime import UTC, datetime

import pytest

from integration.etl_world import (
    NOTHING,
    ONE,
    Context,
    document,
    key_of,
    make_etl,
    normalize,
)
from outlast.errors import (
    ResourceNotFoundError,
)
from outlast.jobs.etl import Loaded, content_hash


def test_a_dry_run_tells_and_writes_nothing_anywhere(shop, raw, api, tmp_path):
    etl, context = make_etl(shop, raw, api), Context(dry_run=True)
    told = etl.load(ONE, context)
    assert told == Loaded("new", content_hash(normalize(document(1))), key_of(document(1)), True, True, True)
    assert context.counts == {"diff_new_hash": 1}
    assert (shop.contents(), raw.puts, (tmp_path / "raw").exists()) == (NOTHING, [], False)
    etl.load(ONE)
    before = shop.contents()
    assert etl.load(ONE, dry_run=True).outcome == "unchanged"
    assert make_etl(shop, raw, api, apply_version=2).load(ONE, dry_run=True)[3:] == (False, True, True)
    assert make_etl(shop, raw, api, apply_version=2).load_from_raw(ONE, dry_run=True).outcome == "reapplied"
    assert shop.contents() == before


def test_what_a_dry_run_asks_for_can_be_overruled(shop, raw, api):
    assert make_etl(shop, raw, api).load(ONE, Context(dry_run=True), dry_run=False).upserted
    assert len(shop.contents()["items"]) == 1


def test_a_newer_apply_is_applied_to_what_is_known_from_raw_without_fetching(shop, raw, api):
    etl = make_etl(shop, raw, api)
    for name in api.documents:
        etl.load(name)
    asked, puts = list(api.asked), list(raw.puts)

    def shout(connection, record):
        shop.apply(connection, {**record, "name": record["name"].upper()})

    newer = make_etl(shop, raw, api, apply=shout, apply_version=2)
    assert list(newer.outdated()) == ["shop:1", "shop:2", "shop:3"]
    context = Context()
    assert [newer.load_from_raw(name, context).outcome for name in ["shop:1", "shop:2"]] == ["reapplied"] * 2
    assert context.counts == {"db_upsert_success": 2}
    assert newer.load_from_raw(ONE).outcome == "unchanged"
    assert list(newer.outdated()) == ["shop:3"]
    assert [name for _, name, _ in shop.contents()["items"]] == ["ITEM 1", "ITEM 2", "Item 3"]
    assert (api.asked, raw.puts) == (asked, puts)
    assert newer.load(ONE).outcome == "unchanged"
    again = newer.load("shop:3")
    assert (again.outcome, again.put, again.upserted) == ("reapplied", False, True)
    assert list(newer.outdated()) == []


def test_an_older_apply_leaves_what_a_newer_one_has_applied(shop, raw, api):
    """While two versions of a program run, they do not undo each other's work for ever."""
    make_etl(shop, raw, api, apply_version=2).load(ONE)
    older = make_etl(shop, raw, api)
    assert older.load(ONE).outcome == "unchanged"
    assert older.load_from_raw(ONE).outcome == "unchanged"
    assert list(older.outdated()) == []


def test_normalize_gets_the_same_from_the_fetch_and_from_raw(shop, raw):
    seen = []

    def watched(answer):
        seen.append(answer)
        return normalize(answer)

    def fetch(source_id):
        return {**document(1), "at": datetime(2026, 3, 1, tzinfo=UTC), "pair": (1, 2)}

    make_etl(shop, raw, fetch, normalize=watched).load(ONE)
    make_etl(shop, raw, fetch, normalize=watched, apply_version=2).load_from_raw(ONE)
    assert seen[0] == seen[1]
    assert seen[0]["pair"] == [1, 2]


def test_a_raw_object_that_is_gone_fails_the_reapply_alone(shop, raw, api):
    loaded = make_etl(shop, raw, api).load(ONE)
    before = shop.contents()
    (raw.folder / loaded.raw_key).unlink()
    with pytest.raises(FileNotFoundError) as caught:
        make_etl(shop, raw, api, apply_version=2).load_from_raw(ONE)
    assert caught.value.__outlast_step__ == "get"
    assert shop.contents() == before


def test_a_record_that_was_never_loaded_cannot_come_from_raw(shop, raw, api):
    with pytest.raises(ResourceNotFoundError, match="never loaded"):
        make_etl(shop, raw, api).load_from_raw("shop:9")


def test_a_reapply_gives_way_to_a_load_in_between(shop, raw, api):
    make_etl(shop, raw, api).load(ONE)
    newer = make_etl(shop, raw, api, apply_version=2)

    def meanwhile(answer):
        api.documents[ONE] = document(1, 5)
        newer.load(ONE)
        return normalize(answer)

    slow = make_etl(shop, raw, api, apply_version=2, normalize=meanwhile)
    assert slow.load_from_raw(ONE).outcome == "superseded"
    assert shop.contents()["items"] == [(ONE, "Item 1", 500)]


def test_documents_that_are_no_json_are_kept_as_they_came(shop, raw):
    def read(page):
        name, price = page.decode().split(";")
        return {"id": ONE, "name": name, "price": int(price), "tags": []}

    etl = make_etl(shop, raw, lambda source_id: b"Item 1;5", normalize=read, encode=bytes, decode=bytes)
    loaded = etl.load(ONE)
    assert raw.get(loaded.raw_key) == b"Item 1;5"
    assert shop.contents()["items"] == [(ONE, "Item 1", 5)]
