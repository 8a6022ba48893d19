"""Selenium: a class for each error of the WebDriver protocol, and its text from the browser."""

from outlast.classify.browser_errors import read_browser_text
from outlast.classify.codes import read_words
from outlast.classify.libraries.library import Found, Library, read_attached_response
from outlast.classify.safe_access import BODY_LIMIT, text_of
from outlast.failure import Category, Origin

_LOST = (
    (
        r"(?:tab|page|renderer|browser) crashed|exited abnormally|unexpectedly closed|DevToolsActivePort",
        Category.SYSTEM,
    ),
    (
        r"not reachable|disconnected|[Tt]imed? ?out|unable to connect|[Cc]an ?not connect|[Cc]onnection refused",
        Category.NETWORK,
    ),
    (
        r"unexpectedly exited|executable|not a binary|Unable to (?:obtain|locate)|cannot find \w+ binary",
        Category.CONFIGURATION,
    ),
)
_NO_SESSION = (
    (
        r"[Tt]imed? ?out|session request|queue|\bbusy\b|no (?:free |available )?(?:slots?|nodes?)",
        Category.API_TEMPORARY,
    ),
    (r"crashed|exited abnormally|unexpectedly closed|DevToolsActivePort|failed to start", Category.SYSTEM),
)


def read_page(error: object) -> Found:
    """The browser's error name."""
    return read_browser_text(text_of(error))


def read_driver(error: object) -> Found:
    """The browser's error name, or the text about a lost browser or driver."""
    text = text_of(error)[:BODY_LIMIT]
    found = read_browser_text(text)
    if found is None and type(error).__name__ in {"WebDriverException", "UnknownErrorException"}:
        return read_words(text, _LOST)
    return found


def read_no_session(error: object) -> Found:
    """Why no browser was started: too busy, crashed, or an incompatible driver."""
    return read_words(text_of(error)[:BODY_LIMIT], _NO_SESSION)


LIBRARY = Library(
    title="Selenium",
    packages="selenium",
    origin=Origin.BROWSER,
    categories={
        Category.NETWORK: (
            "TimeoutException InsecureCertificateException InvalidSessionIdException NoSuchWindowException "
            "CdpConnectionClosed"
        ),
        Category.API_TEMPORARY: (
            "StaleElementReferenceException DetachedShadowRootException ElementClickInterceptedException "
            "ElementNotInteractableException ElementNotVisibleException ScreenshotException "
            "UnableToCloseBrowserException UnavailableNetworkDataException"
        ),
        Category.CONFIGURATION: (
            "NoSuchDriverException SessionNotCreatedException UnknownMethodException UnknownCommandException "
            "UnsupportedOperationException ImeNotAvailableException ImeActivationFailedException "
            "InvalidWebExtensionException"
        ),
        Category.INVALID_PARAMETERS: (
            "InvalidArgumentException InvalidSelectorException InvalidElementStateException "
            "InvalidCookieDomainException InvalidCoordinatesException InvalidSwitchToTargetException "
            "MoveTargetOutOfBoundsException UnableToSetCookieException UnexpectedTagNameException "
            "UnableToSetFileInputException UnderspecifiedStoragePartitionException NoSuchHandleException "
            "NoSuchInterceptException NoSuchNetworkCollectorException NoSuchScriptException NoSuchUserContextException "
            "NoSuchRequestException NoSuchStoragePartitionException NoSuchWebExtensionException "
            "NoSuchScreencastException NoSuchHistoryEntryException BiDiSerializationError"
        ),
        Category.DATA: (
            "NoSuchElementException NoSuchShadowRootException NoSuchFrameException NoSuchAttributeException "
            "NoSuchCookieException NoSuchNodeException NoSuchNetworkDataException NoAlertPresentException "
            "UnexpectedAlertPresentException JavascriptException"
        ),
    },
    readers={
        "WebDriverException": read_driver,
        "SessionNotCreatedException": read_no_session,
        "BrowserError": read_page,
        "APIRequestFailure": read_attached_response,
    },
    says_nothing="WebDriverException UnknownErrorException BrowserError InternalError APIRequestFailure",
)
