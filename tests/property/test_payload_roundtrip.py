"""Laws of payloads: what is encoded comes back, and no text makes decoding fail otherwise than by name (pitfall 43)."""

import contextlib
import json
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from pathlib import PurePosixPath
from typing import Any, Literal, NamedTuple
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from outlast.errors import PayloadError
from outlast.queue.payload import Codec

text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=10)
native = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=8,
)
offsets = st.builds(timezone, st.timedeltas(timedelta(hours=-23), timedelta(hours=23)))
# Offsets of microseconds are written in UTC, which the very ends of the calendar leave no room for.
moments = st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1), timezones=st.just(UTC) | offsets)  # noqa: DTZ001  # bounds of a strategy are naive


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Point(NamedTuple):
    x: int
    at: date


@dataclass
class Leaf:
    moment: datetime | None
    amount: Decimal
    key: UUID
    blob: bytes
    span: timedelta
    hour: time
    path: PurePosixPath
    colour: Colour
    mode: Literal["a", 1]
    number: float


@dataclass
class Tree:
    leaves: list[Leaf]
    by_day: dict[date, tuple[Leaf, ...]]
    points: set[Point]
    either: str | datetime | bytes | Point | None
    anything: Any
    counts: dict[int, frozenset[int]]
    below: "list[Tree]"


leaves = st.builds(
    Leaf,
    moment=st.none() | moments,
    amount=st.decimals(allow_nan=False, allow_infinity=False),
    key=st.uuids(),
    blob=st.binary(max_size=20),
    span=st.timedeltas(),
    hour=st.times(),
    path=st.builds(PurePosixPath, text),
    colour=st.sampled_from(Colour),
    mode=st.sampled_from(["a", 1]),
    number=st.floats(allow_nan=False, allow_infinity=False),
)
points = st.builds(Point, st.integers(), st.dates())
trees = st.recursive(
    st.just([]),
    lambda below: st.lists(
        st.builds(
            Tree,
            leaves=st.lists(leaves, max_size=2),
            by_day=st.dictionaries(st.dates(), st.lists(leaves, max_size=2).map(tuple), max_size=2),
            points=st.sets(points, max_size=2),
            either=st.one_of(st.none(), text, moments, moments.map(datetime.isoformat), st.binary(max_size=3), points),
            anything=native,
            counts=st.dictionaries(st.integers(), st.frozensets(st.integers(), max_size=2), max_size=2),
            below=below,
        ),
        max_size=2,
    ),
    max_leaves=3,
)


def grow(trees: list[Tree], *more: Leaf | date, **named: Point | None): ...


def plain(url: str, page: int = 1, extra=None): ...


@given(trees, st.lists(leaves | st.dates(), max_size=2), st.dictionaries(text, st.none() | points, max_size=2))
def test_what_goes_in_comes_out(grown, more, named):
    named.pop("trees", None)
    codec = Codec(grow)

    args, kwargs = codec.decode(codec.encode((grown, *more), named))

    assert (args, kwargs) == ((grown, *more), named) or (args, kwargs) == ((), {"trees": grown, **named})


@given(native, st.text())
def test_native_values_come_back_or_are_refused(value, url):
    codec = Codec(plain)
    with contextlib.suppress(PayloadError):
        stored = codec.encode((url,), {"extra": value})

        stored.encode()
        assert "\0" not in url
        assert codec.decode(stored) == ((), {"url": url, "extra": value})


@given(st.text() | st.binary() | st.none() | native.map(json.dumps))
def test_decoding_anything_fails_by_name_alone(stored):
    for codec in (Codec(plain), Codec(grow)):
        with contextlib.suppress(PayloadError):
            codec.decode(stored)


@given(
    native, native, native, native, st.sampled_from([*Tree.__annotations__]), st.sampled_from([*Leaf.__annotations__])
)
def test_decoding_any_json_in_the_right_places_fails_by_name_alone(first, second, third, fourth, name, inner):
    leaf = dict.fromkeys(Leaf.__annotations__, second) | {inner: third}
    tree = {
        "leaves": [leaf], "by_day": [[first, [leaf]]], "points": [{"x": 1, "at": third}], "either": {"type": third, "value": first},
        "anything": first, "counts": [[second, third]], "below": [],
    }  # fmt: skip
    for given_trees in ([tree], [tree | {name: fourth}], fourth):
        with contextlib.suppress(PayloadError):
            Codec(grow).decode(json.dumps({"trees": given_trees, "more": [second], "named": {"k": third}}))
