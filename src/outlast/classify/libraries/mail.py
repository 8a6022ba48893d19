"""smtplib, imaplib and poplib: reply codes; 4xx is temporary, 5xx is permanent."""

import re

from outlast.classify.codes import parse_numbers
from outlast.classify.libraries.library import Found, Library
from outlast.classify.safe_access import safe_getattr, safe_int
from outlast.failure import Category, Evidence, Origin

REPLIES = parse_numbers("""
    api_temporary: 421 450-452 454 455
    quota_exhausted: 552
    authentication: 432 530 534 535 538
    access_denied: 554
    not_found: 550 551 556
    invalid_parameters: 500-504 523 553 555
""")
"""Category by SMTP reply code; another 4xx is temporary, another 5xx an invalid request."""


_AMBIGUOUS_CODES = frozenset({550, 551, 552, 554})
_ENHANCED: tuple[tuple[str, Category], ...] = (
    ("5.2.2", Category.QUOTA_EXHAUSTED),  # mailbox full
    ("5.2.3", Category.INVALID_PARAMETERS),  # message too long for the mailbox
    ("5.3.4", Category.INVALID_PARAMETERS),  # message too big for the system
    ("5.6.", Category.INVALID_PARAMETERS),  # content
    ("5.7.8", Category.AUTHENTICATION),
    ("5.7.9", Category.AUTHENTICATION),
    ("5.7.", Category.ACCESS_DENIED),  # security or policy
    ("5.1.", Category.NOT_FOUND),  # address
    ("5.2.", Category.NOT_FOUND),  # mailbox
)
"""Category by the start of the enhanced status code (RFC 3463), for ambiguous reply codes."""

_TOO_FAST = r"\brate\b.{0,20}\b(?:limit|exceed)|too (?:quickly|fast)|too many (?:messages|connections|e?mails)|throttl"
_TOO_BIG = r"\bsize\b|too (?:large|big|long)"


def judge_reply(code: int | None, text: object = None) -> Evidence | None:
    """Return the evidence of a reply code and its text, or None if it is not the code of a failure."""
    if code is None or not 400 <= code <= 599:  # the SMTP reply codes of failures
        return None
    category = REPLIES.get(code, Category.API_TEMPORARY if code < 500 else Category.INVALID_PARAMETERS)
    reply = text[:512].decode("utf-8", "replace") if isinstance(text, bytes) else text
    if isinstance(reply, str):
        category = _refine_category(code, reply[:512].lower(), category)
    return Evidence(category=category, code=str(code))


def _refine_category(code: int, text: str, category: Category) -> Category:
    if code < 500 and re.search(_TOO_FAST, text):
        return Category.RATE_LIMIT
    if code not in _AMBIGUOUS_CODES:
        return category
    enhanced = next((each for start, each in _ENHANCED if text.startswith(start)), None)
    if enhanced is None and code == 552 and re.search(_TOO_BIG, text):
        return Category.INVALID_PARAMETERS
    return enhanced or category


def read_reply(error: object) -> Found:
    """The server's reply code, and its text if the code is ambiguous."""
    return judge_reply(safe_int(error, "smtp_code"), safe_getattr(error, "smtp_error"))


def read_refused_recipients(error: object) -> Found:
    """The reply codes of all recipients; a permanent one decides."""
    recipients = safe_getattr(error, "recipients")
    if not isinstance(recipients, dict):
        return None
    pairs = [reply for reply in recipients.values() if isinstance(reply, tuple) and len(reply) == 2]
    worst = max((reply for reply in pairs if type(reply[0]) is int), key=lambda reply: int(reply[0]), default=None)
    return judge_reply(*worst) if worst else None


LIBRARY = Library(
    title="smtplib, imaplib and poplib",
    packages="smtplib",
    origin=Origin.MAIL,
    categories={
        Category.NETWORK: "SMTPServerDisconnected SMTPConnectError imaplib.abort",
        Category.AUTHENTICATION: "SMTPAuthenticationError",
        Category.CONFIGURATION: "SMTPNotSupportedError",
        Category.ACCESS_DENIED: "imaplib.readonly",
        Category.INVALID_PARAMETERS: "SMTPSenderRefused SMTPRecipientsRefused SMTPDataError SMTPHeloError",
    },
    readers={
        "SMTPResponseException": read_reply,
        "SMTPRecipientsRefused": read_refused_recipients,
    },
    says_nothing="SMTPException SMTPResponseException imaplib.error poplib.error_proto",
)
