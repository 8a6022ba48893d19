"""Equal values have one text and one hash; what has no one form is refused, with its place."""

import json
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import IntEnum, StrEnum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.errors import PayloadError
from outlast.jobs.etl import canonical_json, content_hash

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


class Colour(StrEnum):
    RED = "red"


class Size(IntEnum):
    SMALL = 1


def test_keys_are_sorted_and_nothing_is_spaced():
    assert canonical_json({"b": [1, 2.5, None, True], "a": {"z": "é", "y": "楽天"}}) == (
        '{"a":{"y":"楽天","z":"é"},"b":[1,2.5,null,true]}'.encode()
    )


def test_a_known_hash_stays_as_it_is():
    """Rows in the databases of users hold such hashes: another one would load everything anew."""
    assert content_hash({"id": "shop:1", "price": 100, "tags": ["a", "b"]}) == (
        "9a10d8c0db057bfcf3c97064f67d844e0eafad7f68564fc1ba2b2b62e44e8c98"
    )


@given(JSON)
def test_what_is_written_reads_back_the_same(value):
    assert json.loads(canonical_json(value)) == value
    assert canonical_json(json.loads(canonical_json(value))) == canonical_json(value)


@given(st.dictionaries(st.text(), JSON, min_size=2))
def test_the_order_of_keys_does_not_matter(value):
    assert content_hash(dict(reversed(value.items()))) == content_hash(value)


def test_times_and_decimals_have_one_form():
    noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
    in_tokyo = noon.astimezone(timezone(timedelta(hours=9)))
    assert canonical_json([noon]) == b'["2026-03-01T12:00:00.000000+00:00"]'
    assert content_hash(in_tokyo) == content_hash(noon)
    assert canonical_json([date(2026, 3, 1), Decimal("1.10")]) == b'["2026-03-01","1.10"]'
    assert canonical_json({"colour": Colour.RED, "size": Size.SMALL, "pair": (1, 2)}) == (
        b'{"colour":"red","pair":[1,2],"size":1}'
    )


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ({"items": [{"price": float("nan")}]}, r"\['items'\]\[0\]\['price'\]"),
        ([1.0, float("inf")], r"\[1\]"),
        ({"price": Decimal("NaN")}, r"\['price'\].*not a number"),
        ({"at": datetime(2026, 3, 1, tzinfo=UTC).replace(tzinfo=None)}, r"\['at'\].*time zone"),
        ({"tags": {"a"}}, r"\['tags'\].*set"),
        ({"body": b"x"}, r"\['body'\].*bytes"),
        ({1: "a"}, "the key 1"),
        (object(), "object is not a JSON type"),
    ],
)
def test_what_has_no_one_form_is_refused_with_its_place(value, place):
    with pytest.raises(PayloadError, match=place):
        canonical_json(value)


def test_what_contains_itself_is_refused():
    ring = []
    ring.append(ring)
    with pytest.raises(PayloadError, match="contains itself"):
        canonical_json(ring)


def test_half_a_character_is_written_as_json_escapes_it():
    assert canonical_json("\ud83d") == b'"\\ud83d"'
    assert canonical_json("\\ud83d") == b'"\\\\ud83d"'
