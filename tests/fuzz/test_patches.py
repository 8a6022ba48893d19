"""Edits of stored arguments: any patch of any payload is applied whole, or refused without a word of what is masked."""

import json

from hypothesis import strategies as st

from fuzz.fuzzing import SECRET, deep, fuzz, json_texts, odd_texts, values
from outlast.errors import PayloadError
from outlast.queue.masking import masked_parameters
from outlast.queue.payload_patch import apply_patch

PAYLOAD = {
    "url": "https://example.com",
    "password": SECRET,
    "pages": [1, 2, {"token": SECRET, "a/b": {"~": None}}],
    "headers": [["Authorization", f"Bearer {SECRET}"], ["Accept", "*/*"]],
    "": {"": []},
}
pointers = st.sampled_from([
    "", "/", "/url", "/password", "/pages", "/pages/0", "/pages/2", "/pages/2/token", "/pages/2/a~1b", "/pages/2/a~1b/~0", "/pages/-", "/pages/00", "/pages/-1",
    "/pages/99999999999999999999", "/headers/0", "/headers/0/0", "/headers/0/1", "/headers/1/0", "//", "/pages/2/token/0", "/~2", "url", "/password/0",
    f"/{SECRET}", "/new", "/pages/٣",
])  # fmt: skip
operations = st.fixed_dictionaries(
    {"op": st.sampled_from(["add", "replace", "remove"]) | st.sampled_from(["move", "copy", "test", "ADD", "", None])},
    optional={
        "path": pointers | st.lists(odd_texts, max_size=3).map(lambda parts: "/" + "/".join(parts)) | values,
        "value": values | st.sampled_from(["Authorization", "password", "note", {"token": "x"}]),
        "from": pointers,
    },
)
patches = st.lists(operations | values, max_size=5) | values


def check(text, patch):
    try:
        after = apply_patch(text, patch)
    except PayloadError as error:
        assert SECRET not in str(error) or SECRET in json.dumps(patch, default=str)
        return
    json.loads(after)
    given = json.dumps(patch, default=str)
    assert SECRET in given or SECRET not in masked_parameters(after), "the patch has shown what was masked"


@fuzz(400, patches)
def test_any_patch_of_a_payload_with_secrets(patch):
    assert SECRET not in masked_parameters(json.dumps(PAYLOAD))
    check(json.dumps(PAYLOAD), patch)


@fuzz(150, json_texts, patches)
def test_any_patch_of_any_text(text, patch):
    check(text, patch)


def test_what_is_nested_too_deeply_is_refused():
    far = deep("[", "]")
    for text, patch in (
        (f'{{"a":{far}}}', [{"op": "remove", "path": "/a"}]),
        ('{"a":1}', [{"op": "add", "path": "/a", "value": nested(50_000)}]),
    ):
        try:
            apply_patch(text, patch)
        except PayloadError as error:
            assert "deep" in str(error)
        else:
            raise AssertionError("it was taken")


def nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value
