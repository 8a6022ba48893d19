"""What lies beneath a failed connection: the operating system's reason, where one is in the chain of causes."""

from holdfast.classify.errnos import ERRNOS, name_of_errno
from holdfast.classify.peek import errno_in_chain
from holdfast.failure import Category, Evidence

__all__ = ["read_connection"]


def read_connection(error: BaseException) -> Evidence | None:
    """The operating system's error number beneath: the network's, or this machine's when it is out of files or memory."""
    number = errno_in_chain(error)
    category = ERRNOS.get(name_of_errno(number) or "")
    if category is Category.NETWORK or category is Category.SYSTEM:
        return Evidence(errno=number)
    return None
