"""ftplib: reply codes at the beginning of the text, where 4xx is temporary and 5xx is not."""

from holdfast.classify.libraries.library import Library
from holdfast.classify.peek import text_of
from holdfast.failure import Category, Evidence, Origin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.classify.libraries.library import Found

REPLIES: dict[str, Category] = {
    "425": Category.NETWORK,
    "426": Category.NETWORK,
    "430": Category.AUTHENTICATION,
    "452": Category.API_TEMPORARY,
    "530": Category.AUTHENTICATION,
    "532": Category.AUTHENTICATION,
    "550": Category.NOT_FOUND,
    "552": Category.QUOTA_EXHAUSTED,
}
"""Category of the reply codes that differ from their class."""


def read_reply(error: object) -> "Found":
    """The server's reply code, with which the text begins."""
    code = text_of(error)[:3]
    if not (code.isascii() and code.isdigit()):
        return None
    return Evidence(category=REPLIES.get(code), code=code)


LIBRARY = Library(
    title="ftplib",
    origin=Origin.FILE,
    says={
        Category.API_TEMPORARY: "ftplib.error_temp",
        Category.INVALID_PARAMETERS: "ftplib.error_perm",
        Category.DATA: "ftplib.error_proto ftplib.error_reply",
    },
    reads={"ftplib.Error": read_reply},
    silent="ftplib.Error",
)
