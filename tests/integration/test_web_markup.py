"""What the pages are made of: no text from the store, a path, a query or a form becomes part of them."""

import json
import re
from urllib.parse import quote, urlsplit

import pytest
from selectolax.lexbor import LexborHTMLParser

from outlast.web.access.callers import Role
from web_asking import Client
from web_hostile import EVIL, MARK, SECRET
from web_table import (
    FORM,
    ROUTES,
    every,
    every_closed_post,
    every_page,
    forgiven,  # noqa: F401  # a fixture
    make_world,  # noqa: F401  # a fixture
)

# What comes with every answer


@every
def test_pitfall_66_headers_of_every_answer(world, asking):
    operator = world.client(Role.OPERATOR)
    clients = [world.client(), world.client(Role.READER), operator, Client(world.site, host="evil.example")]
    method = "HEAD" if asking.name == "events" else asking.method
    answers = [client.ask(method, asking.path, FORM) for client in (*clients, operator)]
    nonces = set()
    for answer in answers:
        policy = dict(part.strip().partition(" ")[::2] for part in answer.header("content-security-policy").split(";"))
        nonce = re.fullmatch(r"'nonce-([\w-]{24})'", policy["script-src"])[1]
        assert policy == {
            "default-src": "'none'", "script-src": f"'nonce-{nonce}'", "style-src": f"'nonce-{nonce}'",
            "img-src": "'self' data:", "connect-src": "'self'", "form-action": "'self'", "base-uri": "'none'",
            "frame-ancestors": "'none'",
        }  # fmt: skip
        nonces.add(nonce)
        assert answer.header("referrer-policy") == "no-referrer"
        assert answer.header("x-content-type-options") == "nosniff"
        assert answer.header("x-frame-options") == "DENY"
        assert answer.header("cross-origin-opener-policy") == "same-origin"
        assert answer.header("cross-origin-resource-policy") == "same-origin"
        is_file = asking.name == "static" and answer.status == 200
        assert answer.header("cache-control") == ("public, max-age=31536000, immutable" if is_file else "no-store")
        for name, value in answer.headers:
            assert "\r" not in value
            assert "\n" not in value
            assert not name.startswith("access-control-")
        for cookie in answer.cookies():
            assert "HttpOnly" in cookie
            assert "SameSite=strict" in cookie
            assert "Path=/" in cookie
    assert len(nonces) == len(answers)


def _checked_html(answer):
    """See that a page runs and loads nothing but what is ours, by the tree that a browser makes of it."""
    nonce = re.search(r"'nonce-([\w-]+)'", answer.header("content-security-policy"))[1]
    tree = LexborHTMLParser(answer.text)
    for node in tree.css("*"):
        assert not (node.tag or "").startswith("xss"), "a text became an element"
        for name, value in node.attributes.items():
            assert not name.startswith("on"), f"<{node.tag} {name}>"
            assert name not in {"style", "srcdoc", "ping", "is"}, f"<{node.tag} {name}>"
            assert re.fullmatch(r"[a-zA-Z][\w:-]*", name), f"<{node.tag} {name}>"
            assert "xss" not in name
            if name in {"href", "src", "action", "xlink:href", "formaction", "data-events"}:
                _checked_address(node, value or "")
    # Under the header's no-referrer, browsers send "Origin: null" with our own forms.
    assert [node.attributes["content"] for node in tree.css('meta[name="referrer"]')] == ["same-origin"]
    for node in tree.css("script"):
        assert node.attributes.get("nonce") == nonce
        assert node.attributes.get("src", "").startswith("/static/")
        assert not (node.text() or "").strip(), "no script stands in a page"
    for node in tree.css('link[rel="stylesheet"]'):
        assert node.attributes.get("nonce") == nonce
    assert not tree.css("style, iframe, object, embed, base, template, frame, applet")
    for node in tree.css("form"):
        assert node.attributes.get("method", "get").lower() in {"get", "post", "dialog"}
    return tree


def _checked_address(node, value):
    parts = urlsplit(value)
    if parts.scheme or parts.netloc:
        assert node.tag == "a", f"<{node.tag}> leads to {value}"
        assert parts.scheme in {"http", "https"}
        assert "noreferrer" in node.attributes.get("rel", ""), value
    else:
        assert re.match(r"/(?![/\\])|[#?]|$", value), value


@every_page
@pytest.mark.parametrize("role", [Role.READER, Role.OPERATOR])
def test_pitfall_66_no_text_becomes_part_of_a_page(world, page, role):
    others = f"?subject={quote(f'source:{EVIL}')}" if page.name == "audit" else ""  # much was done by other tests
    answer = world.client(role).get(world.path(page) + others)
    assert answer.status == 200
    tree = _checked_html(answer)
    assert len(answer.body) < 100_000
    assert "49" not in (tree.body.text() or "").partition(MARK)[2][:80], "a template ran what it was given"
    assert SECRET not in answer.text
    if page.name not in {"health", "overview", "simulate"}:
        assert MARK in tree.body.text(), "what was meant to be shown is shown"
    if role is Role.READER:
        assert not [node for node in tree.css('form[method="post"]') if "/sign-out" not in node.attributes["action"]]


@every_page
def test_pitfall_66_what_stands_behind_the_question_mark_stays_text(world, page):
    client = world.client(Role.OPERATOR)
    names = ("text", "q", "category", "task", "task_type", "group", "fingerprint", "reason", "queue", "since", "until", "before",
             "after", "status", "state", "profile", "job", "range", "sort", "order", "stayed", "view", "resource", "limit", "look", "standing", "action", "subject")  # fmt: skip
    for name in names:
        answer = client.get(f"{world.path(page)}?{name}={quote(EVIL)}")
        assert answer.status in {200, 400, 404}, name
        _checked_html(answer)


@pytest.mark.parametrize("name", [name for name, path, _ in ROUTES if "{" in path])
def test_pitfall_66_what_stands_in_a_path_stays_text(world, name):
    path, methods = next((path, methods) for each, path, methods in ROUTES if each == name)
    filled = re.sub(r"\{\w+\}", quote(EVIL, safe=""), path)
    method = "POST" if "POST" in methods else "GET"
    answer = world.client(Role.OPERATOR).ask(method, filled)
    assert answer.status in {200, 303, 400, 404}
    if answer.header(
        "content-type",
    ) and answer.header("content-type").startswith("text/html"):
        _checked_html(answer)
    if answer.status == 303:
        assert re.match(r"/[^/\\]", answer.header("location"))
        _checked_html(world.client(Role.OPERATOR).get(answer.header("location")))


@every_closed_post
def test_pitfall_66_what_a_form_says_stays_text(world, asking):
    client = world.client(Role.OPERATOR)
    fields = (
        "name",
        "resource",
        "reason",
        "minutes",
        "number",
        "id",
        "ids",
        "chosen",
        "selected",
        "text",
        "from",
        "to",
        "back",
        "task",
        "why",
        "note",
        "rate",
        "for",
        "patch",
        "field-1",
    )
    form = "&".join(f"{field}={quote(EVIL)}" for field in fields)
    answer = client.post(asking.path, form)
    assert answer.status in {200, 303, 400, 404}
    if answer.status == 303:
        location = answer.header("location")
        assert re.match(r"/[^/\\]", location)
        assert location.isascii()
        assert location.isprintable()
        shown = client.get(location)
        _checked_html(shown)
    elif not asking.name.startswith("api:"):
        _checked_html(answer)


def test_a_notice_stays_text(world):
    client = world.client(Role.OPERATOR)
    world.hostile.app.store.pause(EVIL)  # else it may be gone: other tests cancel what waits there
    answer = client.post(f"/queues/{quote(EVIL, safe='')}/resume")
    assert answer.status == 303
    shown = client.after(answer).get(answer.header("location"))
    tree = _checked_html(shown)
    assert MARK in tree.css_first(".notice").text()


def test_pages_for_strangers_stay_clean(world):
    for path in (
        "/",
        "/sign-in",
        f"/enter?once={quote(EVIL)}",
        f"/sign-in?to={quote(EVIL)}",
        f"/tasks?text={quote(EVIL)}",
    ):
        for extra in ((), (("Sec-Fetch-Site", "cross-site"),)):
            answer = world.client().get(path, *extra)
            tree = _checked_html(answer)
            refresh = tree.css_first("meta[http-equiv]")
            assert refresh is None or refresh.attributes["content"].startswith("0; url=/sign-in?to=%2F")
    _checked_html(world.client().post("/sign-in", f"token=x&to={quote(EVIL)}"))


# The twins


@every_page
def test_twins_are_json_that_no_browser_takes_for_a_page(world, page):
    path = world.path(page)
    answer = world.client(Role.READER).get(f"/api{path}".rstrip("/"))
    assert answer.status == 200
    assert answer.header("content-type") == "application/json"
    assert answer.header("x-content-type-options") == "nosniff"
    told = json.loads(answer.body, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))
    assert isinstance(told, dict)
    assert SECRET not in answer.text
    _no_large_numbers(told)


def _no_large_numbers(value):
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            _no_large_numbers(each)
    elif type(value) is int:
        assert abs(value) < 2**53
