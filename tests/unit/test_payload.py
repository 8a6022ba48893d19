"""Payloads of tasks: JSON by type hints, the same on every store (pitfall 43)."""

import functools
import json
import pickle
from collections import namedtuple
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal, localcontext
from enum import Enum, Flag, IntEnum, StrEnum, auto
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal, NamedTuple, NewType, NotRequired, Optional, TypedDict, Union
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest

from outlast import classify
from outlast.errors import InvalidParametersError, PayloadError
from outlast.queue.payload import Codec, decode_result, encode_result

NOW = datetime(2024, 2, 29, 12, 30, 0, 5, tzinfo=UTC)


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Size(IntEnum):
    SMALL = 1
    LARGE = 2


class Access(Flag):
    READ = auto()
    WRITE = auto()


class Corner(Enum):
    ORIGIN = (0, 0)


class Mode(StrEnum):
    FAST = "fast"


class Point(NamedTuple):
    x: int
    when: date
    note: str = "none"


Pair = namedtuple("Pair", "left right")  # noqa: PYI024  # as code without hints has it


class Options(TypedDict):
    since: datetime
    depth: NotRequired[int]


@dataclass
class Base:
    name: str
    when: datetime | None = None


@dataclass(frozen=True, slots=True)
class Price:
    amount: Decimal


@dataclass
class Order(Base):
    prices: list[Price] = field(default_factory=list)
    by_day: dict[date, Price] = field(default_factory=dict)
    total: Decimal = field(init=False, default=Decimal(0))

    def __post_init__(self):
        self.total = sum((price.amount for price in self.prices), Decimal(0))


@dataclass
class Node:
    value: date
    below: list["Node"] = field(default_factory=list)
    lost: "NowhereToBeFound" = None  # noqa: F821  # cannot be resolved


@dataclass
class Strict:
    count: int

    def __post_init__(self):
        if self.count < 0:
            raise LookupError("secret-value")


OPTIONAL = Optional[datetime]  # noqa: UP045  # the older spelling is a type of its own
EITHER = Union[str, datetime]  # noqa: UP007  # likewise
Key = NewType("Key", UUID)


class TestTypes:
    @pytest.mark.parametrize(
        ("hint", "value"),
        [
            (str, "häß 😀 \\u0000"), (int, 2**53 + 1), (int, -(10**400)), (float, 0.1), (float, 3), (bool, True), (None, None),
            (Any, {"a": [1, {"b": None}]}), (list, [1]), (dict, {"a": 1}), (list[int], []), (dict[str, list[str]], {"a": ["b"]}),
            (datetime, NOW), (datetime, datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=5, minutes=30, seconds=7)))),
            (date, date.max), (time, time(1, 2, 3, 4)), (time, time(1, tzinfo=UTC)),
            (timedelta, timedelta.max), (timedelta, timedelta.min), (timedelta, timedelta(microseconds=-1)),
            (Decimal, Decimal("-1.10")), (Decimal, Decimal("1E+400")), (Decimal, Decimal("1." + "3" * 60)),
            (UUID, UUID(int=5)), (Key, UUID(int=5)), (bytes, bytes(range(256))), (bytes, b""), (Path, Path("/tmp/a b")),
            (PurePosixPath, PurePosixPath("a/b")), (tuple[int, ...], (1, 2)), (tuple[date, str], (date.min, "x")), (tuple, (1, "a")),
            (set[date], {date.min, date.max}), (frozenset[int], frozenset({1})), (set[tuple[int, int]], {(1, 2)}),
            (dict[int, str], {1: "a", 2: "b"}), (dict[date, set[int]], {date.min: {1}}), (dict[str, bytes], {"a": b"\0"}),
            (dict[tuple[int, int], str], {(1, 2): "x"}), (Mapping[str, date], {"a": date.min}), (Sequence[date], [date.min]),
            (OPTIONAL, None), (OPTIONAL, NOW), (datetime | None, NOW), (Annotated[date, "x", []], date.min),
            (EITHER, NOW.isoformat()), (EITHER, NOW), (int | Decimal, 3), (int | Decimal, Decimal(3)),
            (int | Size, 2), (int | Size, Size.LARGE), (date | datetime | None, NOW), (date | datetime | None, None), (str | None, None),
            (Base | Order, Base("a")), (Base | Order, Order("a")), (list[date] | list[bytes], [b"x"]), (dict | Price, {"type": "Price", "value": 1}),
            (list[int | date], [1, date.min]), (Literal["a", 1, True], True), (Literal["a", 1], 1), (Literal[Colour.RED, b"x"], Colour.RED),
            (Literal[Colour.RED, b"x"], b"x"), (Colour, Colour.BLUE), (Size, Size.LARGE), (Access, Access.READ | Access.WRITE), (Mode, Mode.FAST),
            (Corner, Corner.ORIGIN), (dict[Colour, int], {Colour.RED: 1}), (Point, Point(1, date.min)), (list[Point], [Point(1, date.max, "é")]),
            (Pair, Pair(1, [2])), (Options, {"since": NOW}), (Options, {"since": NOW, "depth": 3}), (Price, Price(Decimal("1.5"))),
            (Order, Order("a", NOW, [Price(Decimal("1.5"))], {date.min: Price(Decimal(2))})), (Order, Order("a")),
            (Node, Node(date.min, [Node(date.max, [Node(date.min)])])),
        ],
    )  # fmt: skip
    def test_come_back_as_they_went(self, hint, value):
        def task(x, after=None): ...

        task.__annotations__ = {"x": hint}
        codec = Codec(task)

        text = codec.encode((value,), {})
        args, kwargs = codec.decode(text)

        assert (args, kwargs) == ((), {"x": value})
        assert type(kwargs["x"]) is type(value)
        assert decode_result(encode_result(value, hint), hint) == value

    def test_a_zone_becomes_an_offset_of_the_same_moment(self):
        moment = datetime(2024, 10, 27, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Berlin"))

        assert decode_result(encode_result(moment, datetime), datetime).astimezone(UTC) == moment.astimezone(UTC)

    def test_a_decimal_context_changes_nothing(self):
        with localcontext() as context:
            context.prec = 3
            assert decode_result(encode_result(timedelta.max, timedelta), timedelta) == timedelta.max
            assert decode_result(encode_result(Decimal("1.23456"), Decimal), Decimal) == Decimal("1.23456")

    def test_an_abstract_hint_takes_what_fits_it(self):
        assert decode_result(encode_result((1, 2), Sequence[int]), Sequence[int]) == [1, 2]
        assert decode_result(encode_result({1}, Iterable[int]), Iterable[int]) == [1]

    def test_what_was_stored_before_a_hint_became_a_union_is_read(self):
        stored = encode_result(NOW, datetime)

        assert decode_result(stored, datetime | str) == NOW
        assert decode_result('"x"', datetime | str) == "x"

    @pytest.mark.parametrize(
        ("hint", "value", "message"),
        [
            (datetime, NOW.replace(tzinfo=None), "without a time zone"),
            (datetime, "2024-01-01", "str where datetime is expected"),
            (date, NOW, "datetime where date is expected"),
            (time, time(1, tzinfo=ZoneInfo("Europe/Berlin")), "depends on the day"),
            (Decimal, 1.5, "float where Decimal"), (Decimal, Decimal("NaN"), "not a number"), (UUID, "x", "str where UUID"),
            (bytes, "x", "str where bytes"), (Path, "x", "str where Path"), (tuple[int, int], (1,), "tuple where tuple of int, int"),
            (tuple[int, ...], [1], "list where tuple"), (set[int], [1], "list where set"), (Colour, "red", "str where Colour"),
            (Literal["a"], "b", "one of 'a'"), (Literal[1], True, "one of 1"), (Point, (1, date.min), "tuple where Point"),
            (Base, Order("x"), "Order where Base"), (Options, {"depth": 1}, "since is missing"),
            (Options, {"since": NOW, "more": 1}, "not known"), (date | bytes, "x", "str where"),
            (list[date], [date.min, 3], r"x\[1\]: int where date"), (dict[str, date], {"k": 3}, r"x\['k'\]: int where date"),
            (dict[str, date], {1: date.min}, "int as a key"), (Order, Order("a", prices=[Price(7)]), r"x.prices\[0\].amount: int"),
            (Any, (1, 2), "tuple is not a JSON type"), (Any, {"a": [1, {2}]}, r"x\['a'\]\[1\]: set is not a JSON type.*annotate"),
            (Any, {1: 2}, r"int as a key.*annotate it: dict\[int, str\]"), (Any, NOW, "datetime where str is expected|datetime is not a JSON type.*annotate it"),
            (object, b"x", "bytes is not a JSON type"), (str, NOW, "datetime where str is expected|datetime is not a JSON type"), (Codec, Codec(print), "Codec is not a JSON type"),
            (float, float("nan"), "x: Out of range"), (Any, [float("inf")], "x: Out of range"), (Any, [10**5000], "x: Exceeds the limit"),
            (str, "a\0b", "x: it contains a NUL"), (Any, {"\0": 1}, "NUL"), (str, "\\\0", "NUL"), (str, "\ud800", "x: it contains half of a surrogate"),
            (dict[str, date], {"\ud83d\ude00": date.min}, "surrogate"), (Path, Path("\udcff"), "surrogate"),
        ],
    )  # fmt: skip
    def test_what_does_not_fit_is_refused_by_name(self, hint, value, message):
        def task(x): ...

        task.__annotations__ = {"x": hint}
        with pytest.raises(PayloadError, match=message) as caught:
            Codec(task, name="shop.scrape").encode((), {"x": value})
        assert "shop.scrape, parameter x" in str(caught.value)
        with pytest.raises(PayloadError, match=r"^result"):
            encode_result(value, hint)

    def test_a_circle_is_refused(self):
        circle = []
        circle.append(circle)
        with pytest.raises(PayloadError, match="parameter x"):
            Codec(lambda x: ...).encode((circle,), {})


class TestCalls:
    def test_every_kind_of_parameter(self):
        def task(a, /, b: date, *rest: bytes, c: Decimal = Decimal(1), **more: date): ...

        codec = Codec(task)
        for args, kwargs in [
            ((1, date.min), {}), ((1,), {"b": date.min}), ((1, date.min, b"x", b"y"), {"c": Decimal(2)}),
            ((1,), {"b": date.min, "a": date.max, "z": date.min}), ((1, date.min, b"x"), {"z": date.min}),
        ]:  # fmt: skip
            found_args, found_kwargs = codec.decode(codec.encode(args, kwargs))
            bound = codec._plan.signature.bind(*args, **kwargs)
            assert codec._plan.signature.bind(*found_args, **found_kwargs) == bound

    def test_the_text_is_an_object_by_parameter(self):
        def task(url: str, *rest, deep=True, **more): ...

        text = Codec(task).encode(("ü", 1, 2), {"deep": False, "k": 1})

        assert text == '{"url":"ü","rest":[1,2],"deep":false,"more":{"k":1}}'

    @pytest.mark.parametrize(
        ("args", "kwargs", "message"),
        [
            ((), {}, "missing a required argument: 'url'"),
            ((1, 2, 3), {}, "too many positional arguments"),
            ((1,), {"url": 2}, "multiple values for argument 'url'"),
            ((1,), {"pages": 2}, r"unexpected keyword argument 'pages'; its parameters are \(url, page=1\)"),
        ],
    )
    def test_a_call_that_cannot_be_made_is_refused(self, args, kwargs, message):
        def scrape(url, page=1): ...

        with pytest.raises(PayloadError, match=message) as caught:
            Codec(scrape, name="scrape").encode(args, kwargs)
        assert str(caught.value).startswith("the arguments do not match task scrape")
        assert isinstance(caught.value.__cause__, TypeError)

    def test_defaults_are_left_to_the_function_and_none_is_fine_where_it_is_one(self):
        def task(when: datetime = None, base: Base = None): ...  # noqa: RUF013  # as people write it

        codec = Codec(task)
        assert codec.encode((), {}) == "{}"
        assert codec.decode(codec.encode((), {"when": None})) == ((), {"when": None})
        with pytest.raises(PayloadError):
            Codec(lambda x: ..., limit=5).encode((NOW,), {})

    def test_the_arguments_themselves_are_left_alone(self):
        def task(when: datetime): ...

        kwargs = {"when": NOW}
        Codec(task).encode((), kwargs)
        assert kwargs == {"when": NOW}

    def test_hints_may_name_what_is_defined_later(self):
        space = {}
        exec("def task(x: 'Later', y: 'Never', z: 'bytes'): ...", space)
        codec = Codec(space["task"])
        space["Later"] = date

        assert codec.decode(codec.encode((), {"x": date.min, "y": 1, "z": b"x"}))[1] == {
            "x": date.min,
            "y": 1,
            "z": b"x",
        }

    def test_wrapped_partial_and_callable_objects(self):
        def task(when: date, deep: bool = False) -> Decimal: ...

        @functools.wraps(task)
        def wrapped(*args, **kwargs): ...

        class Callable:
            def __call__(self, when: date) -> Decimal: ...

        for function in (wrapped, functools.partial(task, deep=True), Callable(), Callable().__call__):
            codec = Codec(function)
            assert codec.decode(codec.encode((date.min,), {})) == ((), {"when": date.min})
            assert codec.returns is Decimal
        assert Codec(lambda: ...).returns is Any

    def test_the_limit_counts_bytes_and_says_what_to_do(self):
        def scrape(text): ...

        codec = Codec(scrape, limit=30, name="scrape")
        assert codec.encode(("a" * 19,), {})
        with pytest.raises(
            PayloadError, match="task scrape: 31 bytes of JSON; the limit is 30; store the data elsewhere"
        ):
            codec.encode(("ä" * 10,), {})

    def test_by_default_it_is_256_kib(self):
        def scrape(text): ...

        Codec(scrape).encode(("a" * 262_133,), {})
        with pytest.raises(PayloadError, match="262145 bytes of JSON; the limit is 262144"):
            Codec(scrape).encode(("a" * 262_134,), {})


class TestDecoding:
    @pytest.mark.parametrize(
        "text",
        [
            "", "{", "[]", "null", "3", '{"url":NaN,"when":1}', "[" * 100_000, "9" * 5000, None, b"{}", '{"url":1}',
            '{"url":1,"when":"2024-01-01T00:00:00+00:00","more":1}', '{"url":1,"when":3}', '{"url":1,"when":"x"}',
            '{"url":1,"when":"2024-01-01T00:00:00"}', '{"url":1,"when":null}',
        ],
    )  # fmt: skip
    def test_what_is_no_payload_is_refused(self, text):
        def task(url, when: datetime): ...

        with pytest.raises(PayloadError, match=r"task \S*task") as caught:
            Codec(task).decode(text)
        assert classify(caught.value).category == "invalid_parameters"
        assert isinstance(caught.value, InvalidParametersError)

    @pytest.mark.parametrize(
        "text",
        ['{"a":1,"rest":3}', '{"rest":[1]}', '{"b":1}', '{"more":[]}', '{"more":{"c":1}}', '{"a":1,"rest":[1]}'],
    )
    def test_what_is_no_call_is_refused(self, text):
        def task(a=0, b=0, /, c=0, *rest, **more): ...

        with pytest.raises(PayloadError):
            Codec(task).decode(text)

    def test_the_error_survives_pickling(self):
        copy = pickle.loads(pickle.dumps(PayloadError("x")))

        assert (type(copy), copy.args) == (PayloadError, ("x",))

    def test_changed_parameters_are_named(self):
        with pytest.raises(PayloadError, match="has no when and an unknown since; its parameters are: when"):
            Codec(lambda when: ...).decode('{"since":1}')

    @pytest.mark.parametrize(
        ("hint", "value"),
        [
            (date, "x"), (timedelta, "1"), (timedelta, "9" * 14 + ".000000"), (Decimal, "x"), (Decimal, "NaN"), (Decimal, 1.5), (UUID, "x"), (bytes, "é"), (bytes, "a"),
            (Colour, "green"), (Colour, []), (Corner, "x"), (Corner, []), (Access, 99), (Literal["a"], "b"), (tuple[int, int], [1]), (set[Any], [[1]]),
            (dict[int, str], {"1": 2}), (dict[int, str], [[1]]), (dict[int, str], [[1, 2, 3]]), (dict[list[int], int], [[[1], 2]]), (dict[str, date], []), (Point, {"x": 1}), (Point, [1]),
            (Base, {}), (Base, {"name": "x", "nope": 1}), (Base | Order, {"type": "Base", "value": {}}), (Base | Order, 3), (Strict, {"count": -1}),
            (Strict, {"count": "x"}), (Options, {}), (date | bytes, {"type": [], "value": 1}), (Path, 3),
        ],
    )  # fmt: skip
    def test_what_cannot_be_converted_is_refused(self, hint, value):
        def task(x): ...

        task.__annotations__ = {"x": hint}
        with pytest.raises(PayloadError, match="parameter x") as caught:
            Codec(task).decode(json.dumps({"x": value}))
        assert caught.value.__cause__ is not None
        assert "secret-value" not in str(caught.value)
        with pytest.raises(PayloadError):
            decode_result(json.dumps(value), hint)
