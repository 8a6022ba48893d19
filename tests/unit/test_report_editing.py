"""The form that edits arguments: a field for every plain value, and the patch that what was typed amounts to."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.queue.masking import masked_value
from outlast.queue.payload_patch import apply_patch
from outlast.redact import MASK
from outlast.report.dead_letters import MAX_FIELDS, FieldError, argument_fields, patch_operations


def fields(value):
    return argument_fields(value, masked_value(json.dumps(value)))


def named(value, **typed):
    """Return the patch for what was typed, by the labels of the fields."""
    found = fields(value)
    names = {field.label: field.name for field in found.rows}
    return patch_operations(found, {names[label]: text for label, text in typed.items()})


def test_every_plain_value_has_a_field():
    found = fields({"url": "u", "n": 3, "on": True, "none": None, "rate": 0.5, "nested": {"a/b": [1, {"x~y": "z"}]}})
    assert [(row.label, row.path, row.kind, row.text) for row in found.rows] == [
        ("url", "/url", "text", "u"),
        ("n", "/n", "number", "3"),
        ("on", "/on", "boolean", "true"),
        ("none", "/none", "null", ""),
        ("rate", "/rate", "number", "0.5"),
        ("nested.a/b[0]", "/nested/a~1b/0", "number", "1"),
        ("nested.a/b[1].x~y", "/nested/a~1b/1/x~0y", "text", "z"),
    ]
    assert not found.others


def test_what_is_masked_has_an_empty_field_and_is_replaced_only_when_something_is_typed():
    value = {"api_key": "s3cret-value", "headers": {"Authorization": "Bearer abc.def.ghi"}, "url": "u"}
    found = fields(value)
    masked = [row for row in found.rows if row.masked]
    assert [row.label for row in masked] == ["api_key", "headers.Authorization"]
    assert all(row.text == "" for row in masked)
    assert patch_operations(found, {row.name: "" for row in masked}) == []
    assert named(value, api_key="new") == [{"op": "replace", "path": "/api_key", "value": "new"}]


@pytest.mark.parametrize("value", [{"tokens": ["abc", "def"]}, {"sk-ant-api03-0123456789abcdefghij": "x"}])
def test_what_is_masked_as_a_whole_or_by_name_has_no_field(value):
    assert fields(value) == ((), True)


def test_nothing_typed_is_nothing_changed():
    value = {"a": "x\ny", "n": 1.0, "b": False, "z": None, "big": 2**70}
    found = fields(value)
    assert patch_operations(found, {}) == []
    assert patch_operations(found, {row.name: row.text.replace("\n", "\r\n") for row in found.rows}) == []


@pytest.mark.parametrize(
    ("value", "typed", "after"),
    [
        ({"n": 3}, "4", 4),
        ({"n": 3}, " 4.5 ", 4.5),
        ({"n": 3}, "-1e3", -1000.0),
        ({"n": True}, "false", False),
        ({"n": "x"}, "", ""),
        ({"n": "x"}, "a\r\nb", "a\nb"),
        ({"n": None}, "text", "text"),
        ({"n": "1"}, "2", "2"),
    ],
)
def test_what_is_typed_becomes_a_value_of_the_same_kind(value, typed, after):
    (operation,) = named(value, n=typed)
    assert operation["value"] == after
    assert type(operation["value"]) is type(after)


@pytest.mark.parametrize(
    ("value", "typed"),
    [
        (3, "x"),
        (3, ""),
        (3, "true"),
        (3, "NaN"),
        (3, "Infinity"),
        (3, "1" * 61),
        (3, "[1]"),
        (True, "maybe"),
        (True, ""),
    ],
)
def test_what_is_no_value_of_the_kind_is_refused_by_name(value, typed):
    with pytest.raises(FieldError, match=r"^count: "):
        named({"count": value}, count=typed)


def test_what_has_no_field_is_told():
    assert fields({"long": "x" * 3000}).others
    assert fields({"empty": [], "none": {}}).others
    assert argument_fields({"lines": "a\r\nb"}, {"lines": "a\r\nb"}) == ((), True), "no browser gives that back"
    many = fields({f"n{number}": number for number in range(MAX_FIELDS + 1)})
    assert len(many.rows) == MAX_FIELDS
    assert many.others


@pytest.mark.parametrize("text", ["a\u202eb", "a\r\nb", "\x1b[31m"])
def test_what_cannot_be_seen_is_left_as_it_is_unless_something_is_typed(text):
    assert [row.text for row in fields({"text": text}).rows] == [""]
    assert named({"text": text}, text="") == []


def test_no_form_gives_a_secret_away():
    value = {
        "password": "hunter2hunter2",
        "url": "https://u:hunter2hunter2@x.test/",
        "list": ["--token", "hunter2hunter2"],
    }
    assert "hunter2" not in " ".join(f"{row.label} {row.text} {row.name}" for row in fields(value).rows)


plain = st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text(max_size=20)
values = st.dictionaries(st.text(min_size=1, max_size=8), plain | st.lists(plain, max_size=3), min_size=1, max_size=5)


@given(values)
def test_every_patch_of_the_form_can_be_applied(value):
    found = fields(value)
    typed = {row.name: {"number": "7", "boolean": "true"}.get(row.kind, "typed") for row in found.rows}
    patch = patch_operations(found, typed)
    if patch:
        again = json.loads(apply_patch(json.dumps(value), patch))
        for row, operation in zip(
            [row for row in found.rows if any(o["path"] == row.path for o in patch)], patch, strict=True
        ):
            assert MASK not in str(operation["value"])
            place = again
            for part in row.path[1:].split("/"):
                name = part.replace("~1", "/").replace("~0", "~")
                place = place[int(name)] if isinstance(place, list) else place[name]
            assert place == operation["value"]
