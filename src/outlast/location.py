"""Where in the user's own code an error came from."""

import os
from functools import cache, lru_cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["location_of"]

_TYPED_BY_HAND = ("<stdin>", "<ipython-input")


@cache
def _library_folders() -> tuple[str, ...]:
    folders = {os.path.dirname(os.__file__), os.path.dirname(os.path.abspath(__file__))}
    return tuple(os.path.normcase(folder) + os.sep for folder in folders)


@lru_cache(maxsize=4096)
def _users_file(filename: str) -> str | None:
    """Return the last two parts of the path, the same on every machine, or None for code that is not the user's."""
    if filename.startswith("<"):
        return filename if filename.startswith(_TYPED_BY_HAND) else None
    path = os.path.normcase(filename)
    if path.startswith(_library_folders()) or "site-packages" in path or "dist-packages" in path:
        return None
    folder, name = os.path.split(filename)
    return f"{os.path.basename(folder)}/{name}" if folder else name


def location_of(traceback: "TracebackType | None") -> str:
    """Return ``folder/file.py:function`` of the innermost frame of the user's code, or an empty text."""
    found = ""
    while traceback is not None:
        code = traceback.tb_frame.f_code
        file = _users_file(code.co_filename)
        if file is not None:
            found = f"{file}:{code.co_qualname}"
        traceback = traceback.tb_next
    return found
