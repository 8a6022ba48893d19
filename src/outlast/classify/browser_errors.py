"""Categories of browser errors: Chromium's net::ERR_…, Firefox's NS_ERROR_… and Firefox's error pages."""

import re

from outlast.classify.codes import parse_names
from outlast.classify.safe_access import BODY_LIMIT
from outlast.failure import Category, Evidence

BROWSER_ERRORS = parse_names("""
    system: ERR_OUT_OF_MEMORY ERR_INSUFFICIENT_RESOURCES ERR_FILE_NO_SPACE NS_ERROR_OUT_OF_MEMORY
    authentication: ERR_INVALID_AUTH_CREDENTIALS ERR_MISSING_AUTH_CREDENTIALS ERR_PROXY_AUTH_REQUESTED
      ERR_PROXY_AUTH_UNSUPPORTED ERR_SSL_CLIENT_AUTH_CERT_NEEDED ERR_BAD_SSL_CLIENT_AUTH_CERT
      ERR_UNEXPECTED_PROXY_AUTH NS_ERROR_PROXY_AUTHENTICATION_FAILED
    access_denied: ERR_ACCESS_DENIED ERR_NETWORK_ACCESS_DENIED
    not_found: ERR_FILE_NOT_FOUND NS_ERROR_FILE_NOT_FOUND fileNotFound
    configuration: ERR_INVALID_URL ERR_UNKNOWN_URL_SCHEME ERR_DISALLOWED_URL_SCHEME ERR_UNSAFE_PORT
      ERR_UNSAFE_REDIRECT NS_ERROR_MALFORMED_URI NS_ERROR_UNKNOWN_PROTOCOL NS_ERROR_PORT_ACCESS_NOT_ALLOWED
      malformedURI unknownProtocolFound deniedPortAccess
    data: ERR_TOO_MANY_REDIRECTS ERR_INVALID_REDIRECT ERR_HTTP_RESPONSE_CODE_FAILURE ERR_INVALID_RESPONSE
      ERR_CONTENT_DECODING_FAILED ERR_CONTENT_DECODING_INIT_FAILED ERR_CACHE_MISS NS_ERROR_REDIRECT_LOOP
      NS_ERROR_INVALID_CONTENT_ENCODING NS_ERROR_CORRUPTED_CONTENT redirectLoop contentEncodingError
      corruptedContentError
    network: ERR_FAILED ERR_ABORTED ERR_TIMED_OUT ERR_EMPTY_RESPONSE ERR_INTERNET_DISCONNECTED ERR_NETWORK_CHANGED
      ERR_ADDRESS_UNREACHABLE ERR_ADDRESS_INVALID ERR_NAME_NOT_RESOLVED ERR_INVALID_HTTP_RESPONSE
      ERR_CONTENT_LENGTH_MISMATCH ERR_INCOMPLETE_CHUNKED_ENCODING ERR_INVALID_CHUNKED_ENCODING NS_BINDING_ABORTED
      NS_ERROR_ABORT NS_ERROR_FAILURE NS_ERROR_UNKNOWN_HOST NS_ERROR_UNKNOWN_PROXY_HOST NS_ERROR_OFFLINE
      connectionFailure dnsNotFound netInterrupt netReset netTimeout netOffline nssFailure2 nssBadCert
      proxyConnectFailure proxyResolveFailure
""")
"""Category by the browser's error name."""

_FAMILIES = (
    (r"ERR_BLOCKED_BY_\w+", Category.ACCESS_DENIED),
    (
        r"ERR_(?:CONNECTION|CERT|SSL|TLS|BAD_SSL|NETWORK|NAME|DNS|ICANN_NAME|SOCKET|SOCKS|PROXY|TUNNEL|HTTP2|QUIC|"
        r"RESPONSE_HEADERS|ADDRESS|WS|TEMPORARILY)_\w+",
        Category.NETWORK,
    ),
    (r"NS_ERROR_(?:NET|CONNECTION|PROXY|GENERATE|WEBTRANSPORT)_\w+", Category.NETWORK),
    (r"(?:SEC|SSL)_ERROR_\w+|MOZILLA_PKIX_ERROR_\w+", Category.NETWORK),
)


_NAME = (
    r"\b(?:net::(?P<chromium>ERR_[A-Z0-9_]{1,80})|about:neterror\?e=(?P<page>[A-Za-z0-9]{1,40})|"
    r"(?P<firefox>NS_(?:ERROR|BINDING)_[A-Z0-9_]{1,80}|(?:SEC|SSL)_ERROR_[A-Z0-9_]{1,80}|MOZILLA_PKIX_ERROR_[A-Z0-9_]{1,80}))"
)


def judge_browser_error(name: str) -> Category | None:
    """Return the category of a browser's error name, or None if it is unknown."""
    family = (category for pattern, category in _FAMILIES if re.fullmatch(pattern, name))
    return BROWSER_ERRORS.get(name) or next(family, None)


def read_browser_text(text: str) -> Evidence | None:
    """Return the evidence of the first browser error that a text names, or None."""
    match = re.search(_NAME, text[:BODY_LIMIT])
    if match is None:
        return None
    name = match["chromium"] or match["page"] or match["firefox"]
    category = judge_browser_error(name)
    return Evidence(category=category, code=name) if category is not None else None
