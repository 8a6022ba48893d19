"""How fuzzing is done here: the same examples in every run of the tests, others and many more in a long run.

A long run (``HYPOTHESIS_PROFILE=soak`` or ``OUTLAST_SOAK=1``) draws anew each time, and prints what reproduces a find.
"""

from __future__ import annotations

import json
import os

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

SOAK = os.environ.get("HYPOTHESIS_PROFILE") == "soak" or os.environ.get("OUTLAST_SOAK") == "1"
MORE = 25  # times as many examples in a long run
SECRET = "hunter2-Tr0ub4dor"


def fuzz(examples, *strategies, **named):
    """Decorate a test: so many examples, and `MORE` times as many in a long run."""
    chosen = settings(
        max_examples=examples * (MORE if SOAK else 1),
        derandomize=not SOAK,
        deadline=None,
        database=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )
    return lambda test: chosen(given(*strategies, **named)(test))


ODD = [
    "", " ", "\0", "\ud800", "\u202e", "\ufeff", "é", "е", "٣", "𝄞", "%", "%s", "%00", "{}", "{0}", "${x}", "'", '"', "\\", "\r\n", "\x1b[2J", "<b>", "&", "--", "-1",
    "0", "1e999", "nan", "-inf", "1_000", "0x10", "9" * 30, "9" * 5000, "x" * 3000, "true", "null", "None", "[]", "a=b", "=", "/", "../..", "~", "*", ";",
    "1970-01-01", "0000-00-00", "9999-12-31T23:59:59Z", "tomorrow", "5m", "-5m", "99999999999d", "1 hour ago", "https://[", "http://a b/", "file:///etc/passwd",
]  # fmt: skip
"""Texts that have broken something somewhere."""

odd_texts = st.sampled_from(ODD) | st.text(max_size=30) | st.lists(st.sampled_from(ODD), max_size=3).map("".join)
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | odd_texts
    | st.sampled_from([2**63, 2**64, -(2**63) - 1, 10**400])
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(odd_texts, inner, max_size=4),
    max_leaves=12,
)
"""Values of JSON, with NaN and what else Python's own reader takes."""


def deep(opening, closing, inside=""):
    """Return something nested far deeper than any stack."""
    return opening * 100_000 + inside + closing * 100_000


@st.composite
def mutated(draw, text):
    """Return a text with a few of its parts cut out, doubled, moved, or replaced by something odd."""
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 20)))
        piece = draw(st.sampled_from(["", text[start:end] * 2, *'"[]{},:=.#\n\\']) | odd_texts)
        text = text[:start] + piece + text[end:]
    return text


@st.composite
def mutated_bytes(draw, data):
    """The same for bytes."""
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(data)))
        end = min(len(data), start + draw(st.integers(0, 20)))
        data = data[:start] + draw(st.binary(max_size=8) | st.just(data[start:end] * 2)) + data[end:]
    return data


json_texts = (
    values.map(lambda value: json.dumps(value, ensure_ascii=False))
    | values.map(json.dumps).flatmap(mutated)
    | odd_texts
    | st.sampled_from(
        [
            deep("[", "]"),
            deep('{"a":', "}", "1"),
            '{"url":' + deep("[", "]") + "}",
            "[" * 100_000,
            "9" * 5000,
            "-" + "9" * 5000,
            "1e400",
            "1." + "0" * 9000,
            "NaN",
            "-Infinity",
            '{"a":1,"a":2}',
            '"\\u0000"',
            '"\\ud800"',
            "\ufeff{}",
            "{}{}",
            '{"url":"x"}\x00',
            '{"url":' + "9" * 5000 + "}",
        ]
    )
)
"""JSON as it comes from outside: whole, damaged, or never any."""
