"""What lies beneath a failed connection: the operating system's reason, or the answer of a proxy that refused it."""

from outlast.classify.errnos import ERRNOS, name_of_errno
from outlast.classify.peek import errno_in_chain, text_of
from outlast.failure import Category, Evidence, Origin

__all__ = ["read_connection", "read_tunnel"]


def read_connection(error: BaseException) -> Evidence | None:
    """The error number beneath: the network's, or this machine's when it is out of files or memory."""
    number = errno_in_chain(error)
    category = ERRNOS.get(name_of_errno(number) or "")
    if category is Category.NETWORK or category is Category.SYSTEM:
        return Evidence(errno=number)
    return None


def read_tunnel(error: BaseException, before: str) -> Evidence | None:
    """The status with which a proxy refused to connect us; it stands only in the text, after these words."""
    text = text_of(error)
    if not text.startswith(before):
        return None
    digits = text[len(before) :].partition(" ")[0]
    if len(digits) != 3 or digits[0] not in "45" or not (digits.isascii() and digits.isdigit()):  # noqa: PLR2004
        return None
    return Evidence(origin=Origin.HTTP, http_status=int(digits))
