"""smtplib, imaplib and poplib: reply codes, where 4xx is temporary and 5xx is not."""

from holdfast.classify.libraries.library import Library
from holdfast.classify.peek import peek, peek_int
from holdfast.failure import Category, Evidence, Origin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.classify.libraries.library import Found

REPLIES: dict[int, Category] = {
    421: Category.API_TEMPORARY,
    450: Category.API_TEMPORARY,
    451: Category.API_TEMPORARY,
    452: Category.API_TEMPORARY,
    454: Category.API_TEMPORARY,
    455: Category.API_TEMPORARY,
    500: Category.INVALID_PARAMETERS,
    501: Category.INVALID_PARAMETERS,
    502: Category.INVALID_PARAMETERS,
    503: Category.INVALID_PARAMETERS,
    504: Category.INVALID_PARAMETERS,
    523: Category.INVALID_PARAMETERS,
    530: Category.AUTHENTICATION,
    534: Category.AUTHENTICATION,
    535: Category.AUTHENTICATION,
    538: Category.AUTHENTICATION,
    550: Category.NOT_FOUND,
    551: Category.NOT_FOUND,
    552: Category.QUOTA_EXHAUSTED,
    553: Category.INVALID_PARAMETERS,
    554: Category.ACCESS_DENIED,
    555: Category.INVALID_PARAMETERS,
    556: Category.NOT_FOUND,
}
"""Category by SMTP reply code; another 4xx is temporary, another 5xx an invalid request."""


def judge_reply(code: int | None) -> Evidence | None:
    """Return the evidence of a reply code, or None for what is none or no failure."""
    if code is None or not 400 <= code <= 599:  # noqa: PLR2004  # the failing half of SMTP's reply codes
        return None
    temporary = Category.API_TEMPORARY if code < 500 else Category.INVALID_PARAMETERS  # noqa: PLR2004
    return Evidence(category=REPLIES.get(code, temporary), code=str(code))


def read_reply(error: object) -> "Found":
    """The server's reply code."""
    return judge_reply(peek_int(error, "smtp_code"))


def read_refused_recipients(error: object) -> "Found":
    """The reply code to every recipient: permanent if one of them is."""
    recipients = peek(error, "recipients")
    if not isinstance(recipients, dict):
        return None
    codes = [reply[0] for reply in recipients.values() if isinstance(reply, tuple) and reply and type(reply[0]) is int]
    return judge_reply(max(codes)) if codes else None


LIBRARY = Library(
    title="smtplib, imaplib and poplib",
    origin=Origin.MAIL,
    says={
        Category.NETWORK: "smtplib.SMTPServerDisconnected smtplib.SMTPConnectError imaplib.abort",
        Category.AUTHENTICATION: "smtplib.SMTPAuthenticationError",
        Category.CONFIGURATION: "smtplib.SMTPNotSupportedError",
        Category.ACCESS_DENIED: "imaplib.readonly",
        Category.INVALID_PARAMETERS: (
            "smtplib.SMTPSenderRefused smtplib.SMTPRecipientsRefused smtplib.SMTPDataError smtplib.SMTPHeloError"
        ),
    },
    reads={"smtplib.SMTPResponseException": read_reply, "smtplib.SMTPRecipientsRefused": read_refused_recipients},
    silent=(
        "smtplib.SMTPException smtplib.SMTPResponseException imaplib.error poplib.error_proto"
    ),
)
