"""feedparser's bozo exceptions and yt-dlp's errors, from the real libraries; only what sites say in words is made up here."""

from __future__ import annotations

import tempfile
from functools import partial
from typing import TYPE_CHECKING, Any

from corpus.case import Case, World, caught
from outlast import RETRYABLE, Category, Origin

if TYPE_CHECKING:
    from collections.abc import Callable

C = Category


def _case(name: str, produce: Callable[[Any], BaseException], category: Category, **more: Any) -> Case:
    return Case(name, lambda world: produce(world.faults), category, category in RETRYABLE, **more)


_RSS = '<rss version="2.0"><channel><title>{}</title><item><title>one</title></item></channel></rss>'


def _bozo(source: Any, **options: Any) -> BaseException:
    import feedparser

    error: BaseException = feedparser.parse(source, **options)["bozo_exception"]
    return error


def _complaint(name: str, text: str, _server: Any) -> BaseException:
    """One that no document here brings about: expat complains first, and some encoding always fits."""
    import feedparser

    error: BaseException = getattr(feedparser, name)(text)
    return error


def _feed(type_: str, text: str, server: Any) -> BaseException:
    return _bozo(server.base(200, {"Content-Type": type_}, text))


_XML = "application/rss+xml"
_RUSSIAN = '<?xml version="1.0" encoding="ascii"?>' + _RSS.format("Привет")

FEEDS = [
    _case("feedparser/not-xml", partial(_feed, "text/plain", _RSS.format("t")), C.DATA, origin=Origin.HTTP),
    _case("feedparser/encoding-override", lambda _: _bozo(_RUSSIAN.encode("koi8-r")), C.DATA, origin=Origin.HTTP),
    _case(
        "feedparser/encoding-hopeless",
        partial(_complaint, "CharacterEncodingUnknown", "document encoding unknown, I tried utf-8 but nothing worked"),
        C.DATA,
        constructed=True,
    ),
    _case(
        "feedparser/undeclared-prefix",
        partial(_complaint, "UndeclaredNamespace", "'media' is not associated with a namespace"),
        C.DATA,
        constructed=True,
    ),
    _case("feedparser/encoding-unknown", lambda _: _bozo(b'<?xml version="1.0" encoding="x-n"?>\xff\x81\x8d'), C.DATA),
    _case("feedparser/undeclared-namespace", partial(_feed, _XML, _RSS.format("<a:b>t</a:b>")), C.DATA),
    _case("feedparser/truncated", partial(_feed, _XML, _RSS.format("t")[:60]), C.DATA),
    _case("feedparser/mismatched-tags", partial(_feed, _XML, "<rss><channel></rss>"), C.DATA),
    _case("feedparser/undefined-entity", partial(_feed, _XML, _RSS.format("a &nbsp; b")), C.DATA),
    _case("feedparser/html", partial(_feed, "text/html", "<html><body><p>Please log in<br></body>"), C.DATA),
    _case("feedparser/refused", lambda s: _bozo(s.refused_url), C.NETWORK),
    _case("feedparser/unresolvable", lambda s: _bozo(s.unresolvable_url), C.NETWORK),
    _case("feedparser/reset", lambda s: caught(_bozo, s.fault("reset")), C.NETWORK),
    _case("feedparser/untrusted", lambda s: _bozo(s.tls("untrusted")), C.NETWORK),
]


class _Silent:
    """A logger that drops everything."""

    def debug(self, *_: object) -> None: ...

    info = warning = error = debug


def _extract(url: str, *, download: bool = False, site: str | None = None, **options: Any) -> object:
    """Run yt-dlp once; `site` is what an extractor finds on the page it was sent to."""
    import yt_dlp
    from yt_dlp.extractor.common import InfoExtractor

    class SiteIE(InfoExtractor):
        _VALID_URL = r"https?://.*"

        def _real_extract(self, _url: str) -> None:
            raise yt_dlp.utils.ExtractorError(site, expected=True, video_id="dQw4w9WgXcQ")

    with tempfile.TemporaryDirectory() as folder:
        once = {"retries": 0, "extractor_retries": 0, "fragment_retries": 0, "file_access_retries": 0}
        quiet = {"quiet": True, "logger": _Silent(), "noprogress": True, "cachedir": False, "proxy": ""}
        settings = {"socket_timeout": 5, "paths": {"home": folder}, **once, **quiet, **options}
        downloader = yt_dlp.YoutubeDL(settings, auto_init=site is None)
        if site is not None:
            downloader.add_info_extractor(SiteIE())
        try:
            return downloader.extract_info(url, download=download)
        finally:
            downloader._request_director.close()


def _video(server: Any) -> str:
    return f"{server.base(200, {'Content-Type': 'video/mp4'}, 'x' * 2000)}/v.mp4"


def _downloaded(server: Any, **options: Any) -> BaseException:
    return caught(_extract, _video(server), download=True, **options)


_STATUSES: dict[int, Category] = {
    401: C.AUTHENTICATION,
    403: C.ACCESS_DENIED,
    404: C.NOT_FOUND,
    410: C.NOT_FOUND,
    451: C.ACCESS_DENIED,
    500: C.API_TEMPORARY,
    502: C.API_TEMPORARY,
}


def _status_case(status: int, category: Category) -> Case:
    def produce(server: Any) -> BaseException:
        return caught(_extract, server.answer(status))

    return _case(f"yt_dlp/{status}", produce, category, http_status=status, origin=Origin.HTTP)


def _later(status: int, server: Any) -> BaseException:
    return caught(_extract, server.answer(status, {"Retry-After": "7"}))


_NO_PAGE = "<html><title>nothing to see</title></html>"

VIDEOS = [
    *(_status_case(*pair) for pair in _STATUSES.items()),
    _case("yt_dlp/429", partial(_later, 429), C.RATE_LIMIT, retry_after=7, http_status=429),
    _case("yt_dlp/503", partial(_later, 503), C.API_TEMPORARY, retry_after=7, http_status=503),
    _case("yt_dlp/refused", lambda s: caught(_extract, s.refused_url), C.NETWORK, origin=Origin.HTTP),
    _case("yt_dlp/reset", lambda s: caught(_extract, s.fault("reset")), C.NETWORK, origin=Origin.HTTP),
    _case("yt_dlp/timeout", lambda s: caught(_extract, s.fault("stall"), socket_timeout=0.1), C.NETWORK),
    _case("yt_dlp/unresolvable", lambda s: caught(_extract, s.unresolvable_url), C.NETWORK),
    _case("yt_dlp/untrusted", lambda s: caught(_extract, s.tls("untrusted")), C.NETWORK),
    _case("yt_dlp/truncated", lambda s: caught(_extract, s.fault("truncated") + "/v.mp4", download=True), C.NETWORK),
    _case("yt_dlp/redirect-loop", lambda s: caught(_extract, s.fault("redirect-loop")), C.DATA),
    _case(
        "yt_dlp/no-video-on-page",
        lambda s: caught(_extract, s.base(200, {"Content-Type": "text/html"}, _NO_PAGE)),
        C.INVALID_PARAMETERS,
    ),
    _case("yt_dlp/no-url", lambda _: caught(_extract, "nonsense"), C.INVALID_PARAMETERS),
    _case("yt_dlp/odd-scheme", lambda _: caught(_extract, "gopher://nowhere.invalid/"), C.CONFIGURATION),
    _case("yt_dlp/odd-proxy", lambda s: caught(_extract, s.url(), proxy="odd://127.0.0.1:9"), C.CONFIGURATION),
    _case("yt_dlp/dead-proxy", lambda s: caught(_extract, s.url(), proxy=s.refused_url), C.NETWORK),
    _case("yt_dlp/no-such-format", lambda s: _downloaded(s, format="bestvideo[height=1]"), C.INVALID_PARAMETERS),
    _case("yt_dlp/no-such-folder", lambda s: _downloaded(s, paths={"home": "/proc/none"}), C.NOT_FOUND),
    _case("yt_dlp/cookie-folder", lambda s: caught(_extract, _video(s), cookiefile="/proc"), C.CONFIGURATION),
    _case(
        "yt_dlp/no-ffmpeg",
        lambda s: _downloaded(s, postprocessors=[{"key": "FFmpegExtractAudio"}], ffmpeg_location="/nonexistent"),
        C.CONFIGURATION,
    ),
    _case("yt_dlp/max-downloads", lambda s: _downloaded(s, max_downloads=1), C.UNKNOWN),
]

_COOKIES = (
    "Use --cookies-from-browser or --cookies for the authentication. See https://github.com/yt-dlp/yt-dlp/wiki/FAQ"
)

SAID: dict[str, tuple[Category, str]] = {
    "private": (C.NOT_FOUND, f"Private video. Sign in if you've been granted access to this video. {_COOKIES}"),
    "removed": (C.NOT_FOUND, "Video unavailable. This video has been removed by the uploader"),
    "terminated": (
        C.NOT_FOUND,
        "Video unavailable. This video is no longer available because the YouTube account has been terminated.",
    ),
    "unavailable": (C.NOT_FOUND, "Video unavailable"),
    "members-only": (
        C.NOT_FOUND,
        "Join this channel to get access to members-only content like this video, and other exclusive perks.",
    ),
    "members-level": (
        C.NOT_FOUND,
        "This video is available to this channel's members on level: Gold (or any higher level). Join this channel.",
    ),
    "live-ended": (C.NOT_FOUND, "This live event has ended."),
    "geo": (C.ACCESS_DENIED, "The uploader has not made this video available in your country"),
    "geo-blocked": (
        C.ACCESS_DENIED,
        "Video unavailable. This video contains content from X, who has blocked it in your country on copyright grounds",
    ),
    "sign-in": (
        C.AUTHENTICATION,
        "This video is only available for registered users. Use --username and --password or --netrc",
    ),
    "age": (
        C.AUTHENTICATION,
        f"Sign in to confirm your age. This video may be inappropriate for some users. {_COOKIES}",
    ),
    "not-a-bot": (C.RATE_LIMIT, f"Sign in to confirm you\N{RIGHT SINGLE QUOTATION MARK}re not a bot. {_COOKIES}"),
    "not-a-bot-plain": (C.RATE_LIMIT, f"Sign in to confirm you're not a bot. {_COOKIES}"),
    "session-limited": (
        C.RATE_LIMIT,
        "Video unavailable. This content isn't available, try again later. The current session has been rate-limited.",
    ),
    "premiere": (C.API_TEMPORARY, "Premieres in 3 hours"),
    "premiere-soon": (C.API_TEMPORARY, "Premiere will begin shortly"),
    "live-soon": (C.API_TEMPORARY, "This live event will begin in 5 minutes."),
    "processing": (C.API_TEMPORARY, "We're processing this video. Check back later."),
    "drm": (C.INVALID_PARAMETERS, "This video is DRM protected"),
}


def _said_case(name: str, category: Category, text: str) -> Case:
    def produce(_: World) -> BaseException:
        return caught(_extract, "https://video.invalid/watch", site=text)

    return Case(f"yt_dlp/says-{name}", produce, category, category in RETRYABLE, origin=Origin.HTTP, constructed=True)


def _made(name: str, *args: Any, **kwargs: Any) -> BaseException:
    import yt_dlp.utils

    error: BaseException = getattr(yt_dlp.utils, name)(*args, **kwargs)
    return error


def _disk_full(_: Any) -> BaseException:
    def save() -> None:
        try:
            raise OSError(28, "No space left on device")
        except OSError as error:
            raise _made("UnavailableVideoError", error)  # noqa: B904  # as yt-dlp raises it

    return caught(save)


def _bug(_: Any) -> BaseException:
    return _made("ExtractorError", "Unable to extract player version; the page has changed", video_id="v")


def _socks(code: int, _: Any) -> BaseException:
    from yt_dlp.socks import Socks5Error

    return Socks5Error(code)


MADE = [
    ("not-live", lambda _: _made("UserNotLive", video_id="channel"), C.API_TEMPORARY),
    ("geo-class", lambda _: _made("GeoRestrictedError", "Not here.", countries=["JP"]), C.ACCESS_DENIED),
    ("too-short", lambda _: _made("ContentTooShortError", 10, 1000), C.NETWORK),
    ("throttled", lambda _: _made("ThrottledDownload"), C.RATE_LIMIT),
    ("regex", lambda _: _made("RegexNotFoundError", "Unable to extract title"), C.DATA),
    ("bug", _bug, C.DATA),
    ("same-file", lambda _: _made("SameFileError", "v.mp4"), C.CONFIGURATION),
    ("existing-video", lambda _: _made("ExistingVideoReached"), C.UNKNOWN),
    ("rejected-video", lambda _: _made("RejectedVideoReached"), C.UNKNOWN),
    ("disk-full", _disk_full, C.SYSTEM),
    ("conversion", lambda _: _made("PostProcessingError", "ffmpeg: No space left on device"), C.SYSTEM),
    ("bare-429", lambda _: _made("DownloadError", "ERROR: [x] v: HTTP Error 429: Too Many Requests"), C.RATE_LIMIT),
    ("socks-refused", partial(_socks, 5), C.NETWORK),
    ("socks-password", partial(_socks, 0xFE), C.AUTHENTICATION),
]

CASES = [
    *FEEDS,
    *VIDEOS,
    *(_said_case(name, *said) for name, said in SAID.items()),
    *(_case(f"yt_dlp/{name}", produce, category, constructed=True) for name, produce, category in MADE),
]
