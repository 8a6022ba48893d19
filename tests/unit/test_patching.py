"""JSON Patch of stored arguments: what it does, and that nobody learns by it what is masked."""

import json
import re

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from outlast.errors import PayloadError
from outlast.queue.masking import masked_parameters, masked_value
from outlast.queue.payload_patch import apply_patch, masked_values
from outlast.redact import MASK

SECRET = "hunter2-Xq9"


def add(path, value):
    return {"op": "add", "path": path, "value": value}


def replace(path, value):
    return {"op": "replace", "path": path, "value": value}


def remove(path):
    return {"op": "remove", "path": path}


def after(value, *operations):
    return json.loads(apply_patch(json.dumps(value), list(operations)))


def refused(value, *operations):
    with pytest.raises(PayloadError) as caught:
        apply_patch(value if isinstance(value, str) else json.dumps(value), list(operations))
    return str(caught.value)


class TestOperations:
    """RFC 6902, section 4 and its appendix, as far as it is taken over."""

    @pytest.mark.parametrize(
        ("value", "operations", "expected"),
        [
            ({"foo": "bar"}, [add("/baz", "qux")], {"foo": "bar", "baz": "qux"}),
            ({"foo": ["bar", "baz"]}, [add("/foo/1", "qux")], {"foo": ["bar", "qux", "baz"]}),
            ({"foo": ["bar"]}, [add("/foo/-", ["abc", "def"])], {"foo": ["bar", ["abc", "def"]]}),
            ({"foo": ["bar"]}, [add("/foo/1", 2)], {"foo": ["bar", 2]}),
            ({"foo": "bar"}, [add("/child", {"grandchild": {}})], {"foo": "bar", "child": {"grandchild": {}}}),
            ({"foo": "bar"}, [add("/foo", 1)], {"foo": 1}),
            ({"baz": "qux", "foo": "bar"}, [remove("/baz")], {"foo": "bar"}),
            ({"foo": ["bar", "qux", "baz"]}, [remove("/foo/1")], {"foo": ["bar", "baz"]}),
            ({"baz": "qux", "foo": "bar"}, [replace("/baz", "boo")], {"baz": "boo", "foo": "bar"}),
            ({"a": [1, 2]}, [replace("/a/0", None)], {"a": [None, 2]}),
            ({"/": 9, "~1": 10}, [replace("/~01", 1), remove("/~1")], {"~1": 1}),
            ({"a": 1}, [add("/b", {}), add("/b/c", [1]), replace("/b/c/0", 2), remove("/a")], {"b": {"c": [2]}}),
            ({"": 1}, [replace("/", 2)], {"": 2}),
            ({"n": 2**60 + 1}, [add("/x", 1)], {"n": 2**60 + 1, "x": 1}),
            ({"ä": "ö"}, [add("/日本", "語")], {"ä": "ö", "日本": "語"}),
        ],
    )
    def test_do_what_they_say(self, value, operations, expected):
        assert after(value, *operations) == expected

    @pytest.mark.parametrize(
        ("operation", "said"),
        [
            ("replace", "must be an object"),
            (
                {"op": "move", "from": "/a", "path": "/b"},
                "'move' is not a valid operation; choose one of: add, replace, remove",
            ),
            ({"op": "copy", "from": "/a", "path": "/b"}, "'copy' is not a valid operation"),
            ({"op": "test", "path": "/a", "value": 1}, "'test' is not a valid operation"),
            ({"op": ["add"], "path": "/a", "value": 1}, "is not a valid operation"),
            ({"path": "/a", "value": 1}, "None is not a valid operation"),
            ({"op": "add", "value": 1}, "has no path"),
            ({"op": "add", "path": 3, "value": 1}, "has no path"),
            ({"op": "add", "path": "/a"}, "add needs a value"),
            ({"op": "remove", "path": "/a", "value": 1}, "'value' is not a valid key of remove"),
            ({"op": "add", "path": "/a", "value": 1, "from": "/b"}, "'from' is not a valid key of add"),
            (add("", {}), "cannot be replaced"),
            (add("a", 1), "must start with /"),
            (replace("/x", 1), "/x does not exist, so it cannot be replaced"),
            (remove("/x"), "/x does not exist, so it cannot be removed"),
            (add("/x/y", 1), "'x' in /x/y does not exist"),
            (add("/a/b", 1), "leads into a value that is not a list or object"),
            (add("/l/3", 1), "'3' is not a valid index of a list of 2"),
            (add("/l/01", 1), "'01' is not a valid index of a list"),
            (add("/l/-1", 1), "'-1' is not a valid index of a list"),
            (add("/l/٣", 1), "is not a valid index of a list"),
            (replace("/l/2", 1), "does not exist, so it cannot be replaced"),
            (replace("/l/-", 1), "does not exist, so it cannot be replaced"),
            (remove("/l/-"), "does not exist, so it cannot be removed"),
            (remove("/l/9999999999999"), "does not exist, so it cannot be removed"),
            (add("/a", float("nan")), "the value is not valid JSON"),
            (add("/a", {1, 2}), "the value is not valid JSON"),
            (add("/a", f"x{MASK}y"), "marks masked values"),
        ],
    )
    def test_that_cannot_be_applied_are_named(self, operation, said):
        message = refused({"a": 1, "l": [1, 2]}, add("/ok", 1), operation)
        assert message.startswith("operation 1: ")
        assert said in message

    @pytest.mark.parametrize("patch", [None, {}, [], "[]", add("/a", 1)])
    def test_a_patch_is_a_list(self, patch):
        with pytest.raises(PayloadError, match="a patch must be a list of operations"):
            apply_patch("{}", patch)

    def test_a_patch_has_an_end(self):
        assert after({}, *[add("/a", n) for n in range(50)]) == {"a": 49}
        assert "51 operations; the limit is 50" in refused({}, *[add("/a", n) for n in range(51)])

    @pytest.mark.parametrize("text", ["", "{", "NaN", '{"a": Infinity}', "[" * 5000])
    def test_what_is_no_json_cannot_be_patched(self, text):
        assert "not valid JSON" in refused(text, add("/a", 1)) or "too deeply" in refused(text, add("/a", 1))

    def test_a_number_without_a_form_has_to_go(self):
        assert "JSON cannot represent" in refused('{"a": 1e999}', add("/b", 1))
        assert json.loads(apply_patch('{"a": 1e999}', [replace("/a", 1)])) == {"a": 1}

    def test_none_of_it_is_done_when_one_cannot_be(self):
        text = '{"a":1}'
        with pytest.raises(PayloadError):
            apply_patch(text, [replace("/a", 2), remove("/b")])
        assert text == '{"a":1}'


class TestMasked:
    def test_can_be_replaced(self):
        assert after({"token": SECRET, "n": 1}, replace("/token", "new")) == {"token": "new", "n": 1}
        assert after({"token": SECRET}, add("/token", "new")) == {"token": "new"}
        assert after({"headers": [["Cookie", SECRET]]}, replace("/headers/0/1", "new")) == {
            "headers": [["Cookie", "new"]]
        }

    @pytest.mark.parametrize(
        ("value", "path"),
        [
            ({"token": SECRET}, "/token"),
            ({"outer": {"token": SECRET}}, "/outer"),
            ({"url": f"https://user:{SECRET}@host/"}, "/url"),
            ({"headers": [["Cookie", SECRET]]}, "/headers/0"),
            ({"argv": ["--password", SECRET]}, "/argv/1"),
            ({"x": {"name": "api_key", "value": SECRET}}, "/x/value"),
        ],
    )
    def test_cannot_be_removed(self, value, path):
        assert "it can be replaced, but not removed" in refused(value, remove(path))

    def test_no_path_leads_into_it(self):
        value = {"credentials": {"user": "u", "list": [SECRET]}}
        for operation in (add("/credentials/x", 1), replace("/credentials/user", 1), remove("/credentials/list/0")):
            assert "or is masked" in refused(value, operation)
        assert "or is masked" in refused(value, add("/credentials/none/x", 1)), "nor is told what is in it"

    @pytest.mark.parametrize(
        ("value", "operation"),
        [
            ({"h": ["Cookie", SECRET]}, replace("/h/0", "x")),
            ({"h": ["Cookie", SECRET]}, add("/h/0", "x")),
            ({"h": ["Cookie", SECRET]}, remove("/h/0")),
            ({"h": ["Cookie", f"{SECRET} token=abc"]}, replace("/h/0", "x")),
            ({"h": ["a", "b", "token", SECRET]}, add("/h/-", "x")),
            ({"argv": ["run", "--password", SECRET]}, replace("/argv/1", "--user-name")),
            ({"x": {"name": "api_key", "value": SECRET}}, replace("/x/name", "colour")),
            ({"x": {"name": "api_key", "value": SECRET}}, remove("/x/name")),
            ({"x": {"name": "api_key", "value": {SECRET: None}}}, replace("/x/name", "colour")),
            ({"x": {"name": "api_key", "value": [[SECRET]]}}, replace("/x/name", "colour")),
            ({"x": {"name": "pin", "value": 4711}}, replace("/x/name", "colour")),
        ],
    )
    def test_the_name_beside_it_cannot_be_changed_to_see_it(self, value, operation):
        assert "would reveal a masked value" in refused(value, operation)

    def test_name_and_value_may_be_changed_together_in_any_order(self):
        value = {"x": {"name": "api_key", "value": SECRET}}
        expected = {"x": {"name": "colour", "value": "red"}}
        assert after(value, replace("/x/name", "colour"), replace("/x/value", "red")) == expected
        assert after(value, replace("/x/value", "red"), replace("/x/name", "colour")) == expected

    def test_a_guess_is_not_told_from_the_truth(self):
        """To give the secret oneself is no way to find out that it was right."""
        value = {"h": ["Cookie", SECRET], "t": SECRET[:-1], "token": SECRET}
        for guess in (SECRET, "wrong"):
            assert "would reveal" in refused(value, add("/g", guess), replace("/h/0", "x"))
            assert after(value, add("/g", guess))["g"] == guess

    def test_a_masked_name_cannot_be_guessed(self):
        name = f"https://user:{SECRET}@host"
        for guess in (name, "https://user:wrong@host"):
            assert "looks like a secret" in refused({"m": {name: 1}}, replace(f"/m/{guess.replace('/', '~1')}", 2))
            assert "looks like a secret" in refused({"m": {name: 1}}, add(f"/m/{guess.replace('/', '~1')}", 2))

    def test_what_is_hidden(self):
        text = json.dumps({"token": SECRET, "n": 1, "pin": 4711, "url": "https://u:p@h/", "ok": "yes", "flag": True})
        assert masked_values(text) == {SECRET, 4711, "https://u:p@h/"}
        assert masked_values("no json") == set()


NAMES = [
    "url",
    "token",
    "password",
    "name",
    "value",
    "key",
    "header",
    "api_key",
    "Cookie",
    "--password",
    "n",
    "a",
    "x y",
]
secrets = st.integers(0, 10**6).map(lambda n: f"zq{n:07d}wv")
leaves = st.one_of(
    st.none(), st.booleans(), st.integers(-9, 9), st.sampled_from([*NAMES, "", "plain text"]), secrets,
    secrets.map(lambda text: f"https://user:{text}@host/p"), secrets.map(lambda text: f"{text} token={text}"),
)  # fmt: skip
trees = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
        st.tuples(st.sampled_from(NAMES), inner).map(list),
        st.builds(lambda name, each: {"name": name, "value": each}, st.sampled_from(NAMES), inner),
        st.dictionaries(secrets, st.none(), max_size=1),
    ),
    max_leaves=12,
)
payloads = st.dictionaries(st.sampled_from(NAMES), trees, min_size=1, max_size=4)


def places(value, path=""):
    """All pointers into a value, those beyond the end of its lists too."""
    if isinstance(value, dict):
        for name, each in value.items():
            here = f"{path}/{name.replace('~', '~0').replace('/', '~1')}"
            yield here
            yield from places(each, here)
        yield f"{path}/new"
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield f"{path}/{number}"
            yield from places(each, f"{path}/{number}")
        yield f"{path}/-"


given_values = st.one_of(
    st.sampled_from([*NAMES, 0, None, True, [], {}, ["a", "b"]]), st.just({"name": "n", "value": 1})
)


def words(text):
    """The secrets of the generator that a text shows."""

    return set(re.findall(r"zq\d{7}wv", text))


@settings(max_examples=400)
@given(st.data())
def test_no_patch_brings_to_light_what_is_masked(data):
    """Whatever is added, replaced or removed: what was not shown before is not shown after, nor told by a message."""
    value = data.draw(payloads)
    text = json.dumps(value)
    seen = words(masked_parameters(text))
    count = data.draw(st.integers(1, 4))
    operations, now = [], value
    for _ in range(count):
        path = data.draw(st.sampled_from(sorted(set(places(now))) or ["/new"]))
        kind = data.draw(st.sampled_from(["add", "replace", "remove"]))
        operations.append(
            remove(path) if kind == "remove" else {"op": kind, "path": path, "value": data.draw(given_values)}
        )
    typed = words(json.dumps(operations))
    try:
        result = apply_patch(text, operations)
    except PayloadError as error:
        assert words(str(error)) <= seen | typed
        return
    assert words(masked_parameters(result)) <= seen | typed


@settings(max_examples=200)
@given(payloads, st.data())
def test_a_value_that_is_not_touched_stays_as_it_is_and_as_it_is_shown(value, data):
    operation = add("/brand_new", data.draw(given_values))
    result = json.loads(apply_patch(json.dumps(value), [operation]))
    shown = masked_value(json.dumps(result))
    assume(list(shown) == list(result))

    assert {name: each for name, each in result.items() if name != "brand_new"} == value
    assert {name: each for name, each in shown.items() if name != "brand_new"} == masked_value(json.dumps(value))
