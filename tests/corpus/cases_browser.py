"""Playwright's driver and Selenium's client, for real where they need no browser, and what browsers say where they do."""

from __future__ import annotations

import threading
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from corpus.case import Case, World, caught
from outlast import Category as C
from outlast import Origin

if TYPE_CHECKING:
    from collections.abc import Callable

RETRIED = {C.NETWORK, C.API_TEMPORARY, C.SYSTEM, C.RATE_LIMIT}

# What a browser says of a page that it cannot load; the same for both libraries.
PAGES: dict[str, C] = {
    "net::ERR_CONNECTION_REFUSED": C.NETWORK,
    "net::ERR_NAME_NOT_RESOLVED": C.NETWORK,
    "net::ERR_TIMED_OUT": C.NETWORK,
    "net::ERR_CONNECTION_RESET": C.NETWORK,
    "net::ERR_EMPTY_RESPONSE": C.NETWORK,
    "net::ERR_INTERNET_DISCONNECTED": C.NETWORK,
    "net::ERR_CERT_AUTHORITY_INVALID": C.NETWORK,
    "net::ERR_ABORTED": C.NETWORK,
    "net::ERR_TOO_MANY_REDIRECTS": C.DATA,
    "net::ERR_HTTP_RESPONSE_CODE_FAILURE": C.DATA,
    "net::ERR_INVALID_URL": C.CONFIGURATION,
    "net::ERR_BLOCKED_BY_CLIENT": C.ACCESS_DENIED,
    "net::ERR_INVALID_AUTH_CREDENTIALS": C.AUTHENTICATION,
    "net::ERR_FILE_NOT_FOUND": C.NOT_FOUND,
    "net::ERR_INSUFFICIENT_RESOURCES": C.SYSTEM,
    "NS_ERROR_CONNECTION_REFUSED": C.NETWORK,
    "NS_ERROR_UNKNOWN_HOST": C.NETWORK,
    "SEC_ERROR_UNKNOWN_ISSUER": C.NETWORK,
    "NS_ERROR_REDIRECT_LOOP": C.DATA,
}


# Playwright: its driver runs once, in a thread of its own, since a second event loop would not start beside it.

REQUESTS: dict[str, tuple[Callable[[Any, Any], object], C, int | None, float | None]] = {
    "refused": (lambda get, it: get(it.refused_url), C.NETWORK, None, None),
    "name not resolved": (lambda get, it: get(it.unresolvable_url), C.NETWORK, None, None),
    "reset": (lambda get, it: get(it.fault("reset")), C.NETWORK, None, None),
    "closed": (lambda get, it: get(it.fault("close")), C.NETWORK, None, None),
    "stalls": (lambda get, it: get(it.fault("stall"), timeout=50), C.NETWORK, None, None),
    "truncated": (lambda get, it: get(it.fault("truncated")), C.NETWORK, None, None),
    "no HTTP": (lambda get, it: get(it.fault("garbage-status")), C.NETWORK, None, None),
    "untrusted certificate": (lambda get, it: get(it.tls("untrusted")), C.NETWORK, None, None),
    "expired certificate": (lambda get, it: get(it.tls("expired")), C.NETWORK, None, None),
    "broken gzip": (lambda get, it: get(it.fault("broken-gzip")), C.DATA, None, None),
    "redirects without end": (lambda get, it: get(it.fault("redirect-loop")), C.DATA, None, None),
    "invalid URL": (lambda get, it: get("nowhere"), C.CONFIGURATION, None, None),
    "unknown scheme": (lambda get, it: get("gopher://nowhere.invalid/"), C.CONFIGURATION, None, None),
    "404": (lambda get, it: get(it.answer(404), fail_on_status_code=True), C.NOT_FOUND, 404, None),
    "403": (lambda get, it: get(it.answer(403), fail_on_status_code=True), C.ACCESS_DENIED, 403, None),
    "403 with a token": (
        lambda get, it: get(it.answer(403), fail_on_status_code=True, headers={"Authorization": "Bearer x"}),
        C.AUTHENTICATION, 403, None,
    ),
    "429": (
        lambda get, it: get(it.answer(429, {"Retry-After": "5"}), fail_on_status_code=True), C.RATE_LIMIT, 429, 5,
    ),
    "503": (
        lambda get, it: get(it.answer(503, {"Retry-After": "7"}), fail_on_status_code=True), C.API_TEMPORARY, 503, 7,
    ),
}  # fmt: skip
DRIVER: dict[str, tuple[Callable[[Any, Any], object], C]] = {
    "browser not installed": (lambda chromium, it: chromium.launch(executable_path="/nothing"), C.CONFIGURATION),
    "channel not installed": (lambda chromium, it: chromium.launch(channel="chrome-canary"), C.CONFIGURATION),
    "wrong type of an option": (lambda chromium, it: chromium.launch(slow_mo="slow"), C.INVALID_PARAMETERS),
    "remote browser refused": (lambda chromium, it: chromium.connect_over_cdp(it.refused_url), C.NETWORK),
}


@cache
def playwright_errors(world: World) -> dict[str, BaseException]:
    """Return every real error, by the name of its case."""
    found: dict[str, BaseException] = {}

    def run() -> None:
        from playwright.sync_api import sync_playwright

        with sync_playwright() as playwright:
            context = playwright.request.new_context()
            for name, (ask, *_) in REQUESTS.items():
                found[name] = caught(ask, context.get, world.faults)
            context.dispose()
            found["closed by ourselves"] = caught(context.get, world.faults.url())
            for name, (start, _) in DRIVER.items():
                found[name] = caught(start, playwright.chromium, world.faults)

    thread = threading.Thread(target=run, name="playwright")
    thread.start()
    thread.join(60)
    return found


def by_playwright(name: str, world: World) -> BaseException:
    return playwright_errors(world)[name]


def playwright_says(kind: str, text: str, _: World) -> BaseException:
    from playwright.sync_api import Error, TimeoutError  # noqa: A004

    return {"Error": Error, "TimeoutError": TimeoutError}[kind](text)


SAID: dict[str, tuple[str, C]] = {
    'Page.click: Timeout 30000ms exceeded.\nCall log:\n  - waiting for locator("#buy")\n': ("TimeoutError", C.NETWORK),
    'Locator.click: Error: strict mode violation: locator("a") resolved to 2 elements': ("Error", C.INVALID_PARAMETERS),
    "Page.query_selector: '##' is not a valid selector": ("Error", C.INVALID_PARAMETERS),
    "Page.evaluate: Execution context was destroyed, most likely because of a navigation": ("Error", C.API_TEMPORARY),
    "Page.goto: Page crashed": ("Error", C.SYSTEM),
    "Page.goto: Download is starting": ("Error", C.DATA),
    "Page.goto: Protocol error (Page.navigate): Cannot navigate to invalid URL": ("Error", C.CONFIGURATION),
}  # fmt: skip


# Selenium


def by_selenium(error: str, message: str, _: World) -> BaseException:
    from selenium import webdriver as selenium

    from servers.webdriver_stub import webdriver

    def visit(address: str) -> None:
        driver = selenium.Remote(address, options=selenium.ChromeOptions())
        try:
            driver.get("http://shop.test/")
        finally:
            driver.quit()

    with webdriver(error, message) as address:
        return caught(visit, address)


# Error code of the WebDriver protocol, what the driver says, category.
WEBDRIVER: dict[str, tuple[str, str, C]] = {
    "page load timeout": ("timeout", "timeout: Timed out receiving message from renderer: 30.000", C.NETWORK),
    "script timeout": ("script timeout", "script timeout", C.NETWORK),
    "no such element": ("no such element", 'Unable to locate element: {"method":"css selector"}', C.DATA),
    "stale element": ("stale element reference", "stale element not found in the current frame", C.API_TEMPORARY),
    "click intercepted": ("element click intercepted", "another element would receive the click", C.API_TEMPORARY),
    "not interactable": ("element not interactable", "element has zero size", C.API_TEMPORARY),
    "invalid selector": ("invalid selector", "an invalid or illegal selector was specified", C.INVALID_PARAMETERS),
    "invalid argument": ("invalid argument", "invalid argument", C.INVALID_PARAMETERS),
    "insecure certificate": ("insecure certificate", "SSL_ERROR_BAD_CERT_DOMAIN", C.NETWORK),
    "unexpected alert": ("unexpected alert open", "{Alert text : Sure?}", C.DATA),
    "window gone": ("no such window", "target window already closed", C.NETWORK),
    "no such frame": ("no such frame", "no such frame", C.DATA),
    "session gone": ("invalid session id", "session deleted as the browser has closed the connection", C.NETWORK),
    "script fails": ("javascript error", "x is not defined", C.DATA),
    "versions do not fit": (
        "session not created", "This version of ChromeDriver only supports Chrome version 114", C.CONFIGURATION,
    ),
    "browser does not start": (
        "session not created", "Chrome failed to start: exited abnormally. (DevToolsActivePort file doesn't exist)", C.SYSTEM,
    ),
    "no slot in the grid": (
        "session not created", "Could not start a new session. New session request timed out", C.API_TEMPORARY,
    ),
    "tab crashed": ("unknown error", "unknown error: session deleted because of page crash from tab crashed", C.SYSTEM),
    "browser not reachable": ("unknown error", "unknown error: Chrome not reachable", C.NETWORK),
    "error page of Firefox": (
        "unknown error", "Reached error page: about:neterror?e=dnsNotFound&u=http%3A//shop.test/", C.NETWORK,
    ),
    **{text: ("unknown error", f"unknown error: {text}", category) for text, category in PAGES.items()},
}  # fmt: skip


def selenium_refused(world: World) -> BaseException:
    from selenium import webdriver as selenium

    return caught(selenium.Remote, world.faults.refused_url, options=selenium.ChromeOptions())


def driver_missing(_: World) -> BaseException:
    from selenium import webdriver as selenium
    from selenium.webdriver.chrome.service import Service

    return caught(selenium.Chrome, service=Service(executable_path="/nothing"))


def waited(_: World) -> BaseException:
    from selenium.webdriver.support.wait import WebDriverWait

    return caught(WebDriverWait(object(), 0.01, poll_frequency=0.005).until, lambda _: False)  # type: ignore[type-var]


def _case(name: str, make: Callable[[World], BaseException], category: C, **fields: Any) -> Case:
    return Case(name, make, category, category in RETRIED, **{"origin": Origin.BROWSER, **fields})


CASES: list[Case] = [
    *(
        _case(f"playwright/{name}", partial(by_playwright, name), category, http_status=status, retry_after=wait, needs="playwright")
        for name, (_, category, status, wait) in REQUESTS.items()
    ),
    *(_case(f"playwright/{name}", partial(by_playwright, name), category, needs="playwright") for name, (_, category) in DRIVER.items()),
    _case("playwright/closed by ourselves", partial(by_playwright, "closed by ourselves"), C.NETWORK, needs="playwright"),
    *(
        _case(f"playwright/{text[:40]}", partial(playwright_says, kind, text), category, constructed=True)
        for text, (kind, category) in SAID.items()
    ),
    *(
        _case(
            f"playwright/{text}", partial(playwright_says, "Error", f"Page.goto: {text} at http://shop.test/"), category,
            code=text.removeprefix("net::"), constructed=True,
        )
        for text, category in PAGES.items()
    ),
    *(
        _case(f"selenium/{name}", partial(by_selenium, error, message), category)
        for name, (error, message, category) in WEBDRIVER.items()
    ),
    _case("selenium/endpoint refused", selenium_refused, C.NETWORK, origin=None),
    _case("selenium/driver missing", driver_missing, C.CONFIGURATION),
    _case("selenium/condition not met in time", waited, C.NETWORK),
]  # fmt: skip
