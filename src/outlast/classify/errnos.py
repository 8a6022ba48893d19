"""What an error number of the operating system means."""

import errno

from outlast.failure import Category, Origin

__all__ = ["ERRNOS", "name_of_errno", "origin_of_errno"]

_NAMES: dict[Category, str] = {
    Category.NETWORK: (
        "ECONNREFUSED ECONNRESET ECONNABORTED EPIPE ETIMEDOUT EHOSTUNREACH EHOSTDOWN ENETUNREACH ENETDOWN ENETRESET "
        "ENOTCONN ESHUTDOWN EADDRNOTAVAIL EALREADY EINPROGRESS EAGAIN EWOULDBLOCK EINTR EISCONN ENONET "
        "EPROTO ECOMM EREMOTEIO ETIME ENOLINK ESTALE"
    ),
    Category.SYSTEM: (
        "ENOSPC EDQUOT ENOMEM EMFILE ENFILE EIO ENOBUFS EROFS EBUSY ETXTBSY ENOLCK EDEADLK EUSERS ENOSR ENXIO ENODEV"
    ),
    Category.NOT_FOUND: "ENOENT ESRCH ENODATA",
    Category.ACCESS_DENIED: "EACCES EPERM",
    Category.INVALID_PARAMETERS: (
        "EINVAL EISDIR ENOTDIR EEXIST ENOTEMPTY ENAMETOOLONG ELOOP EXDEV EFBIG ESPIPE EDOM ERANGE EILSEQ E2BIG EMSGSIZE "
        "EDESTADDRREQ EOVERFLOW EMLINK"
    ),
    Category.CONFIGURATION: (
        "EADDRINUSE ENOSYS EOPNOTSUPP ENOTSUP EAFNOSUPPORT EPROTONOSUPPORT EPFNOSUPPORT EPROTOTYPE ENOPROTOOPT ESOCKTNOSUPPORT "
        "ENOEXEC ELIBACC ELIBBAD"
    ),
    Category.AUTHENTICATION: "EKEYEXPIRED EKEYREJECTED EKEYREVOKED ENOKEY",
}

ERRNOS: dict[str, Category] = {name: category for category, names in _NAMES.items() for name in names.split()}
"""Category by the name of the error number; numbers differ between systems, names do not."""

_ABOUT_FILES = frozenset(
    "ENOSPC EDQUOT EROFS EIO ENOENT EISDIR ENOTDIR EEXIST ENOTEMPTY ENAMETOOLONG EXDEV EFBIG".split()
)


def name_of_errno(number: object) -> str | None:
    """Return the name of an error number on this system, or None for what is none."""
    if type(number) is not int:
        return None
    return errno.errorcode.get(number)


def origin_of_errno(name: str) -> Origin:
    """Return what was probably talked to when this error came."""
    if name in _ABOUT_FILES:
        return Origin.FILE
    return Origin.NETWORK if ERRNOS.get(name) is Category.NETWORK else Origin.PROGRAM
