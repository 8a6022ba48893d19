"""What templates write: nothing that a reader would not see, and values that come back as they were."""

import html

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup

from outlast.web.rendering import TEMPLATE_FILTERS, escape_invisible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a name", "a name"),
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
        ("exe.\u202egpj", "exe.\\u202egpj"),
        ("\x1b[31m", "\\x1b[31m"),
        ("\ufeffzero\u200bwidth", "\\ufeffzero\\u200bwidth"),
        ("a\r\nb", "a\nb"),
        ("日本　語", "日本　語"),
        ("👩\u200d🔧", "👩\u200d🔧"),
        ("\U000e0041", "\\U000e0041"),
    ],
)
def test_what_would_not_be_seen_is_spelled_out(text, shown):
    assert escape_invisible(text) == shown


def test_what_is_no_text_stays():
    assert escape_invisible(7) == 7
    assert escape_invisible(None) is None
    assert escape_invisible(Markup("<b>\u202e</b>")) == "<b>\u202e</b>"


@given(st.text(st.characters(exclude_categories=["Cc", "Cs", "Cn"]) | st.sampled_from("\n\t\u202e\u200b\ufeff")))
def test_what_a_form_sends_back_is_what_it_was(text):
    written = TEMPLATE_FILTERS["exact"](text)
    assert not {"<", '"', "'", "\u202e", "\u200b", "\ufeff"} & set(written)
    assert html.unescape(str(written)) == text
