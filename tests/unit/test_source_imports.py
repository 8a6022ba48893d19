"""Sources from OPML and from plain lists."""

import pytest

from outlast.errors import ConfigError
from outlast.ports.source_rows import NewSource
from outlast.sources.registry import sources_from_list, sources_from_opml


def opml(body, head='<?xml version="1.0" encoding="UTF-8"?>'):
    return f'{head}\n<opml version="2.0">\n<head><title>Mine</title></head>\n<body>\n{body}\n</body>\n</opml>'


ONE = '<outline type="rss" text="One" xmlUrl="http://one.test/feed"/>'


def test_feeds_are_found_at_any_depth():
    nested = f"""
        <outline text="News"><outline text="Deep"><outline text="Deeper">{ONE}</outline></outline>
        <outline type="rss" text="Two" title="Second" xmlUrl="http://two.test/feed" htmlUrl="http://two.test/"/></outline>
        <outline text="a folder"/>
        <outline text="nothing" xmlUrl=" "/>
    """

    assert sources_from_opml(opml(nested), "feed") == [
        NewSource("http://one.test/feed", "feed", "One"),
        NewSource("http://two.test/feed", "feed", "Second"),
    ]


def test_ten_thousand_levels_are_no_trouble():
    deep = "<outline text='x'>" * 10_000 + ONE + "</outline>" * 10_000

    assert [source.url for source in sources_from_opml(opml(deep), "feed")] == ["http://one.test/feed"]


def test_names_of_attributes_may_be_written_in_any_case():
    text = (
        '<OPML><body><Outline TEXT="One" xmlurl="http://one.test/"/><outline xmlURL="http://two.test/"/></body></OPML>'
    )

    assert sources_from_opml(text, "blog") == [
        NewSource("http://one.test/", "blog", "One"),
        NewSource("http://two.test/", "blog"),
    ]


def test_the_same_feed_is_taken_once():
    twice = ONE + '<outline text="Again" xmlUrl="HTTP://ONE.test:80/feed#top"/>'

    assert sources_from_opml(opml(twice), "feed") == [NewSource("http://one.test/feed", "feed", "One")]


def test_long_and_folded_names_are_made_to_fit():
    long = f'<outline title="a&#10;  b {"n" * 300}" xmlUrl="http://one.test/"/>'

    (source,) = sources_from_opml(opml(long), "feed")

    assert source.name.startswith("a b nnn")
    assert len(source.name) == 200


@pytest.mark.parametrize(
    "charset", ["utf-8", "utf-8-sig", "utf-16", "iso-8859-1", "shift_jis", "euc-jp", "windows-1252"]
)
def test_bytes_are_read_by_what_they_declare(charset):
    name = "日本語" if charset in {"utf-8", "utf-8-sig", "utf-16", "shift_jis", "euc-jp"} else "Zoë"
    declared = charset.removesuffix("-sig")
    text = opml(f'<outline text="{name}" xmlUrl="http://one.test/"/>', f'<?xml version="1.0" encoding="{declared}"?>')

    assert sources_from_opml(text.encode(charset), "feed") == [NewSource("http://one.test/", "feed", name)]


def test_utf_8_that_calls_itself_utf_16_is_read_all_the_same():
    text = opml('<outline text="日本語" xmlUrl="http://one.test/"/>', '<?xml version="1.0" encoding="utf-16"?>')

    assert sources_from_opml(text.encode(), "feed")[0].name == "日本語"


def test_text_is_text_whatever_its_declaration_says():
    text = opml(
        '<outline text="日本語" xmlUrl="http://one.test/"/>', '\ufeff\n\n<?xml version="1.0" encoding="shift_jis"?>'
    )

    assert sources_from_opml(text, "feed")[0].name == "日本語"


def test_no_feed_in_it_is_no_error():
    assert sources_from_opml(opml(""), "feed") == []


BOMB = (
    '<?xml version="1.0"?>\n<!DOCTYPE opml [\n<!ENTITY a "aaaaaaaaaa">\n'
    + "".join(f'<!ENTITY {b} "{f"&{a};" * 10}">\n' for a, b in zip("abcdefghi", "bcdefghij", strict=True))
    + ']>\n<opml><body><outline text="&j;" xmlUrl="http://one.test/"/></body></opml>'
)


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("", 1, "no element found"),
        ("http://one.test/\n", 1, "not well-formed"),
        ("<html>\n<body></body></html>", 1, "begins with <html>"),
        ('<?xml version="1.0"?>\n\n<rss version="2.0"><channel/></rss>', 3, "begins with <rss>"),
        (opml(ONE).replace("</body>", ""), 7, "mismatched tag"),
        ("\n\n" + opml(ONE).replace("</body>", ""), 9, "mismatched tag"),
        (opml(ONE)[:-10], 6, "unclosed token"),
        (opml('<outline text="a & b"/>'), 5, "not well-formed"),
        (opml('<outline text="&nbsp;"/>'), 5, "undefined entity"),
        (BOMB, 3, "defines entities"),
        ('<!DOCTYPE opml [\n<!ENTITY a SYSTEM "file:///etc/passwd">]><opml>&a;</opml>', 2, "defines entities"),
        ('<!DOCTYPE opml [\n<!ENTITY % a SYSTEM "http://evil.test/">%a;]><opml/>', 2, "defines entities"),
    ],
)
def test_what_is_not_opml_is_refused_with_the_line(text, line, why):
    for form in (text, text.encode()):
        with pytest.raises(ConfigError, match=f"not OPML: line {line}: .*{why}"):
            sources_from_opml(form, "feed")


@pytest.mark.parametrize("name", ["no-such-charset", "utf-8", "base64"])
def test_bytes_that_cannot_be_decoded_are_refused(name):
    text = opml(ONE, f'<?xml version="1.0" encoding="{name}"?>')

    with pytest.raises(ConfigError, match=f"line 1: it cannot be read as {name}"):
        sources_from_opml(text.encode() + b"\xff", "feed")


def test_a_doctype_from_elsewhere_is_never_fetched():
    text = '<!DOCTYPE opml SYSTEM "http://nothing.invalid/opml.dtd"><opml><body>' + ONE + "</body></opml>"

    assert len(sources_from_opml(text, "feed")) == 1


def test_a_list_has_a_url_in_each_line_and_maybe_a_name():
    text = (
        "\ufeff# my feeds\r\n"
        "http://one.test/feed\r\n"
        "\n"
        "   http://two.test/feed#top \t The  second one \n"
        "http://three.test/\tThird\n"
        "http://four.test/   # not a name\n"
        "  # http://five.test/\n"
        "HTTP://ONE.TEST/feed again\n"
        "http://six.test/"
    )

    assert sources_from_list(text, "blog") == [
        NewSource("http://one.test/feed", "blog"),
        NewSource("http://two.test/feed", "blog", "The second one"),
        NewSource("http://three.test/", "blog", "Third"),
        NewSource("http://four.test/", "blog"),
        NewSource("http://six.test/", "blog"),
    ]


def test_an_empty_list_is_no_error():
    assert sources_from_list("\n# nothing\n", "feed") == []
