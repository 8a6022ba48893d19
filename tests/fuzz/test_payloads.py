"""Payloads from outside: whatever text stands in the table, a task gets its arguments or a `PayloadError`."""

import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypedDict
from uuid import UUID

from hypothesis import strategies as st

from fuzz.fuzzing import SECRET, fuzz, json_texts, odd_texts, values
from outlast.errors import PayloadError
from outlast.queue.masking import masked_parameters, masked_text, masked_value
from outlast.queue.payload import Codec, decode_result, encode_result


class Colour(Enum):
    RED = 1.5
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1


class Pair(NamedTuple):
    first: int
    second: "date | None" = None


class Options(TypedDict, total=False):
    depth: int
    after: timedelta


@dataclass
class Node:
    name: str
    below: "list[Node]"
    at: datetime | None = None


HINTS = [
    None, bool, int, float, str, bytes, date, datetime, time, timedelta, Decimal, UUID, Path, Colour, Level, Pair, Options, Node, Any, object,
    list, dict, set, tuple, list[int], dict[str, Pair], dict[int, Colour], dict[Pair, Node], set[UUID], frozenset[date], tuple[int, ...],
    tuple[str, Decimal], tuple[()], Sequence[Level], Mapping[str, bytes], int | None, Pair | Node | None, list[Pair] | dict[str, int],
    Literal["a", 1] | None, Annotated[int, "far"], str | bytes | datetime | Path, set[frozenset[int]], dict[str, dict[str, list[Node | Colour | None]]],
]  # fmt: skip


def call(url: str, depth: int = 1, *rest: Pair, token: str | None = None, **more: Node): ...


CODEC = Codec(call)
written = st.builds(
    lambda hint, text: (hint, text),
    st.sampled_from(HINTS),
    json_texts | values.map(lambda value: json.dumps(value, ensure_ascii=False)),
)


@fuzz(200, json_texts)
def test_any_stored_text_is_a_call_or_a_payload_error(text):
    with contextlib.suppress(PayloadError):
        args, kwargs = CODEC.decode(text)
        with contextlib.suppress(PayloadError):  # what a hint does not bound, such as NaN, comes in and does not go out
            assert CODEC.decode(CODEC.encode(args, kwargs)) == (args, kwargs) or "nan" in repr((args, kwargs))


@fuzz(400, written)
def test_any_text_under_any_hint_is_a_value_or_a_payload_error(given):
    hint, text = given
    with contextlib.suppress(PayloadError):
        value = decode_result(text, hint)
        with contextlib.suppress(PayloadError):
            stored = encode_result(value, hint)
            stored.encode()
            assert repr(decode_result(stored, hint)) == repr(value) or "{" in repr(value)  # sets have no order


@fuzz(200, values | st.binary() | st.builds(object), st.sampled_from(HINTS))
def test_any_value_under_any_hint_is_stored_or_refused(value, hint):
    with contextlib.suppress(PayloadError):
        stored = encode_result(value, hint)
        stored.encode()
        assert "\0" not in stored
        decode_result(stored, hint)


names = st.sampled_from(
    ["password", "api_key", "Authorization", "db_password", "session_token", "contraseña", "x-api-key"]
)
hidden = st.builds(lambda name, before: {name: SECRET + before}, names, st.just("") | st.text("abc", max_size=3))


@fuzz(
    150,
    st.recursive(
        hidden, lambda inner: st.lists(inner | values, max_size=3) | st.dictionaries(odd_texts, inner, max_size=2)
    ),
)
def test_what_stands_under_the_name_of_a_secret_is_never_shown(payload):
    with contextlib.suppress(ValueError):  # a whole number too long for JSON
        text = json.dumps(payload)
        assert SECRET not in masked_parameters(text)
        assert SECRET not in json.dumps(masked_value(text))


@fuzz(200, json_texts)
def test_any_text_can_be_masked(text):
    masked_parameters(text).encode("utf-8", "surrogatepass")
    masked_text(text)
    json.dumps(masked_value(text))
