"""The redactor takes linear time: no text of a megabyte costs more than its share."""

import re
import time

from hypothesis import example, given, settings
from hypothesis import strategies as st

from outlast.redact import Redactor
from unit.redaction_corpus import SHAPES, read_texts

SIZE = 1_000_000
SECONDS = 20  # measured: 0.1 to 2; quadratic time would be hours
PIECES = sorted(
    {piece for shape in SHAPES for piece in re.findall(r"\w+|\W", shape)} | set("'\"\\=:;,&%+ \n(){}[]<>@/|$.-_")
)
WHOLE = [*SHAPES, *read_texts("texts_with_secrets.txt")]
units = st.sampled_from(WHOLE) | st.lists(st.sampled_from(PIECES), min_size=1, max_size=5).map("".join)


@settings(max_examples=12, deadline=None)
@example("", "\\t")
@example("", "[1m")
@given(st.just("") | st.sampled_from(WHOLE), units)
def test_a_megabyte_takes_linear_time(start, unit):
    text = start + unit * (SIZE // len(unit))
    before = time.process_time()
    Redactor(limit=2 * SIZE)(text)
    assert time.process_time() - before < SECONDS
