"""``outlast.toml`` as anybody may have written it: settings, or a `ConfigError` that shows no secret."""

import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import strategies as st

from fuzz.fuzzing import SECRET, deep, fuzz, mutated, mutated_bytes, odd_texts, values
from outlast.config import _APP_KEYS, _POLICY_KEYS, _RULE_KEYS, load_config
from outlast.errors import ConfigError
from outlast.failure import Category

WHOLE = f"""
[app]
url = "postgresql://user:{SECRET}@db.example.com/outlast"
lease = 20
heartbeat = 5.0
crash_limit = 3
queues = ["default", "mail"]
notify = ["https://hooks.slack.com/services/{SECRET}", "mailto://me:{SECRET}@example.com"]

[[classify.rules]]
name = "busy"
category = "rate_limit"
status = [420, 598]
code = ["SlowDown"]
type = "vendor.errors.Busy"
text = 'quota (?:is )?spent'
retryable = true
retry_after = 30

[redact]
patterns = ['key-[0-9a-f]{{8}}']

[policies.api]
max_attempts = 4
retry_on = ["network", "rate_limit"]
backoff = "exponential"
base_delay = 0.5
max_delay = 60
jitter = "full"
deadline = 300

[policies.api.overrides.rate_limit]
base_delay = 30
"""


def toml(value):
    """Write a value as TOML; what TOML lacks as text."""
    if isinstance(value, dict):
        return (
            "{"
            + ", ".join(f"{json.dumps(key, ensure_ascii=False)} = {toml(each)}" for key, each in value.items())
            + "}"
        )
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    if isinstance(value, bool) or value is None:
        return json.dumps(bool(value))
    if isinstance(value, float):
        return repr(value)
    return hex(value) if isinstance(value, int) and value >= 0 else json.dumps(str(value), ensure_ascii=False)


odd = values | st.sampled_from(
    [
        "exponential",
        "none",
        "full",
        "retryable",
        *Category,
        "sqlite:",
        "sqlite://",
        "sqlite://a",
        "postgresql",
        ":",
        "(",
        "(a+)+$",
        "[[:x",
    ]
)
policies = st.dictionaries(
    st.sampled_from([*_POLICY_KEYS, "x"]),
    odd
    | st.dictionaries(
        st.sampled_from([*Category, "y"]),
        st.dictionaries(st.sampled_from([*_POLICY_KEYS]), odd, max_size=3),
        max_size=2,
    ),
    max_size=5,
)
files = st.fixed_dictionaries(
    {},
    optional={
        "app": st.dictionaries(st.sampled_from([*_APP_KEYS, "y"]), odd, max_size=5) | odd,
        "classify": st.fixed_dictionaries(
            {
                "rules": st.lists(st.dictionaries(st.sampled_from([*_RULE_KEYS]), odd, max_size=6) | odd, max_size=3)
                | odd
            }
        )
        | odd,
        "redact": st.fixed_dictionaries({"patterns": st.lists(odd, max_size=3) | odd}) | odd,
        "policies": st.dictionaries(odd_texts, policies | odd, max_size=2) | odd,
    },
).map(lambda tables: "\n".join(f"{name} = {toml(table)}" for name, table in tables.items()))


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return tmp_path_factory.mktemp("settings") / "outlast.toml"


def read(file, content):
    """Read a file; return what was refused, or nothing."""
    file.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"))
    try:
        config = load_config(file)
    except ConfigError as error:
        assert str(file) in str(error)
        assert SECRET not in str(error)
        return str(error)
    assert SECRET not in repr(config)
    config.classifier()
    for policy in config.policies.values():
        policy.preview()
    return ""


def test_the_whole_of_it_can_be_read(file):
    assert read(file, WHOLE) == ""


@fuzz(250, mutated(WHOLE))
def test_a_damaged_file(file, text):
    read(file, text)


@fuzz(100, mutated_bytes(WHOLE.encode()) | st.binary(max_size=200))
def test_a_file_of_bytes(file, data):
    read(file, data)


@fuzz(250, files)
def test_any_value_in_any_place(file, text):
    read(file, text)


@pytest.mark.parametrize(
    "text",
    [
        "a = " + deep("[", "]"),
        "a." * 2000 + "b = 1",
        "[app]\nlease = " + "9" * 5000,
        "[app]\nlease = 0x" + "f" * 5000,
        "[app]\ncrash_limit = 0x" + "f" * 5000,
        "[policies.p]\nmax_attempts = 0x" + "f" * 5000,
        "[policies.p]\nmax_delay = 0x" + "f" * 5000,
        "[[classify.rules]]\ncategory = 'network'\nstatus = 0x" + "f" * 5000,
        "[[classify.rules]]\ncategory = 'network'\nstatus = 500\nretry_after = 0x" + "f" * 5000,
        f"url = 'postgresql://u:{SECRET}@h/d'",
        f"[app]\nurl = {SECRET}",
        f"[app]\nurl = 'mysql://u:{SECRET}@h/d'",
        f"[app]\nnotify = '{SECRET}'",
        f"[app]\nnotify = ['', '{SECRET}']",
    ],
    ids=range(14),
)
def test_what_is_too_much_is_refused_by_name(file, text):
    assert read(file, text)


def test_a_folder_or_nothing_is_refused_by_name(tmp_path):
    for path in (tmp_path, tmp_path / "nothing", Path("\0"), tmp_path / ("x" * 300)):
        with contextlib.suppress(ConfigError):
            load_config(path)
            raise AssertionError(f"{path!r} was read")
