"""yt-dlp: a network or extractor error, wrapped in a DownloadError, and the texts of sites."""

from outlast.classify.codes import read_words
from outlast.classify.libraries.library import Found, Library
from outlast.classify.safe_access import TEXT_LIMIT, read_response, safe_error, safe_getattr, safe_int, text_of
from outlast.failure import Category, Evidence, Origin

_C = Category
_BUG = "please report this issue on"

_NOT_YET = (
    r"premieres? in \w|premiere will begin|will premiere|live (?:event|stream) will (?:begin|start)|"
    r"processing this video|still (?:being )?process(?:ed|ing)|not currently live"
)
_ELSEWHERE = r"available (?:in|from) your (?:country|location|region)|geo[ -]?(?:restrict|block)|in your country|your country or region"
_NOT_FOR_US = (
    r"private video|video is private|members[- ]only|channel.s members|(?:has been|was) (?:removed|deleted|terminated)|"
    r"no longer available|live (?:event|stream(?: recording)?) (?:has ended|is not available)|video unavailable|does not exist"
)
_SIGN_IN = (
    r"confirm your age|age[- ]restricted|only available (?:for|to) (?:registered|logged[- ]in|premium|subscrib)|"
    r"log ?in (?:is )?(?:required|needed)|requires? (?:a )?(?:login|authentication|subscription)|"
    r"--cookies\b.{0,40}\bfor the authentication|use --username"
)

PHRASES: tuple[tuple[Category, str], ...] = (
    (_C.SYSTEM, r"no space left on device|disk quota exceeded"),
    (_C.RATE_LIMIT, r"not a bot|rate-limited by|isn.t available, try again later|captcha challenge"),
    (_C.API_TEMPORARY, _NOT_YET),
    (_C.ACCESS_DENIED, _ELSEWHERE),
    (_C.NOT_FOUND, _NOT_FOR_US),
    (_C.AUTHENTICATION, _SIGN_IN),
    (_C.CONFIGURATION, r"ff(?:mpeg|probe)\b.{0,24}\bnot found|ff(?:mpeg|probe) is not installed"),
    (_C.INVALID_PARAMETERS, r"requested format is not available|is not a valid url|unsupported url|drm protect"),
)
"""Texts of sites and yt-dlp by category; the first match decides, since a text often matches several."""


def _inner_error(error: object) -> BaseException | None:
    """Return the error given as the cause, or the one that was being handled; never the error itself."""
    exc_info = safe_getattr(error, "exc_info")
    handled = exc_info[1] if isinstance(exc_info, tuple) and len(exc_info) == 3 else None
    return safe_error(error, "cause") or (
        handled if isinstance(handled, BaseException) and handled is not error else None
    )


def read_wrapper(error: object) -> Found:
    """The known text of a site, then the wrapped error; a failure that yt-dlp did not expect is bad data."""
    text = text_of(error)[:TEXT_LIMIT].lower()
    found = read_words(text, ((pattern, category) for category, pattern in PHRASES)) or _inner_error(error)
    if found is None and _BUG in text_of(error):
        return Evidence(category=_C.DATA)
    return found


def read_http_error(error: object) -> Found:
    """The response; a redirect loop is bad data."""
    if safe_getattr(error, "redirect_loop") is True:
        return Evidence(origin=Origin.HTTP, category=_C.DATA, http_status=safe_int(error, "status"))
    return read_response(safe_getattr(error, "response"))


def read_cause(error: object) -> Found:
    """The wrapped error of the HTTP client, or the one that was being handled."""
    return _inner_error(error) or safe_error(error, "__cause__", "__context__")


_SOCKS_REFUSALS = frozenset({0x02, 0xFE, 0xFF, 93})


def read_proxy_error(error: object) -> Found:
    """The reply code of a SOCKS proxy, which is not an errno, or the wrapped error."""
    if not isinstance(error, OSError):
        return read_cause(error)
    refused = safe_int(error, "errno") in _SOCKS_REFUSALS
    return Evidence(category=_C.AUTHENTICATION if refused else _C.NETWORK)


def read_xattr_error(error: object) -> Found:
    """Whether the disk was full."""
    return Evidence(category=_C.SYSTEM) if safe_getattr(error, "reason") == "NO_SPACE" else None


LIBRARY = Library(
    title="yt-dlp",
    packages="yt_dlp",
    origin=Origin.HTTP,
    categories={
        _C.NETWORK: "TransportError ContentTooShortError ProxyError DataTruncatedError",
        _C.RATE_LIMIT: "ThrottledDownload",
        _C.API_TEMPORARY: "UserNotLive ReExtractInfo",
        _C.ACCESS_DENIED: "GeoRestrictedError",
        _C.AUTHENTICATION: "AuthenticationException InvalidLoginException",
        _C.NOT_FOUND: "EntryNotInPlaylist CommentsDisabled",
        _C.CONFIGURATION: (
            "CookieLoadError SameFileError UnsupportedRequest NoSupportingHandlers UnsafeExecExpansionError "
            "XAttrUnavailableError LockingUnsupportedError"
        ),
        _C.INVALID_PARAMETERS: "UnsupportedError _UnsafeExtensionError IndexError",
        _C.DATA: (
            "RegexNotFoundError FFmpegPostProcessorError AudioConversionError EmbedThumbnailPPError JS_Throw Exception "
            "_RequiredError ParserError ParseError compat_HTMLParseError HTMLBreakOnClosingTagException "
            "MediaSelectionError XAttrMetadataError JS_Break JS_Continue"
        ),
    },
    readers={
        "DownloadError ExtractorError PostProcessingError": read_wrapper,
        "RequestError UnavailableVideoError": read_cause,
        "HTTPError": read_http_error,
        "XAttrMetadataError": read_xattr_error,
        "ProxyError": read_proxy_error,
    },
    says_nothing=(
        "YoutubeDLError DownloadError ExtractorError PostProcessingError RequestError HTTPError "
        "UnavailableVideoError DownloadCancelled ExistingVideoReached RejectedVideoReached MaxDownloadsReached "
        "StopExtraction IEContentProviderError JsChallengeProviderError JsChallengeProviderRejectedRequest "
        "PoTokenCacheProviderError PoTokenProviderError PoTokenProviderRejectedRequest _GitHubError"
    ),
)
