"""What the JSON twins are made of."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from enum import Enum, StrEnum
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.web.endpoints import encode_json, plain_data


class Colour(StrEnum):
    RED = "red"


class Number(Enum):
    TWO = 2


class Row(NamedTuple):
    id: int
    at: datetime
    colour: Colour


@dataclass
class Thing:
    name: str
    row: Row


AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone(timedelta(hours=2)))


def test_rows_are_objects_times_are_utc_and_enums_their_values():
    value = {"thing": Thing("x", Row(1, AT, Colour.RED)), "two": Number.TWO, Colour.RED: {3: "three"}}
    assert json.loads(encode_json(value)) == {
        "thing": {"name": "x", "row": {"id": 1, "at": "2026-01-02T01:04:05+00:00", "colour": "red"}},
        "two": 2,
        "red": {"3": "three"},
    }


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (None, None), (True, True), (1.5, 1.5), (float("nan"), None), (float("inf"), None),
        (timedelta(minutes=1), 60.0), (datetime(2026, 1, 1, tzinfo=UTC).date(), "2026-01-01"),
        ((1, 2), [1, 2]), ({"b", "a"}, ["a", "b"]), (frozenset(), []),
        (2**53 - 1, 2**53 - 1), (-(2**53) + 1, -(2**53) + 1),
    ],
)  # fmt: skip
def test_plain_values(value, told):
    assert plain_data(value) == told
    assert type(plain_data(value)) is type(told)


@given(st.integers())
def test_pitfall_53_no_reader_rounds_a_whole_number(number):
    told = json.loads(encode_json({"id": number}), parse_int=float)["id"]
    assert int(told) == number  # as text where a float would not hold it


def test_what_begins_with_an_underscore_is_for_the_template_alone():
    assert plain_data({"_chart": object(), "rows": []}) == {"rows": []}


@pytest.mark.parametrize("value", [b"bytes", object(), {(1, 2): 3}, {"deep": [{"x": b""}]}, str, {None: 1}])
def test_what_has_no_form_in_json(value):
    with pytest.raises(TypeError):
        encode_json(value)


def test_a_script_cannot_end_within_json_that_somebody_puts_into_a_page():
    assert encode_json("\u2028</script>é").isascii()
