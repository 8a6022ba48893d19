"""From the text of a traceback back to an error that can be judged, with its causes."""

import re

from holdfast.cli.subjects import error_named

__all__ = ["error_in"]

_START = "Traceback (most recent call last):"
_CAUSE = "The above exception was the direct cause of the following exception:"
_CONTEXT = "During handling of the above exception, another exception occurred:"
_LAST_LINE = re.compile(r"(?P<name>[A-Za-z_][\w.]*)(?:: (?P<message>.*))?", re.DOTALL)


def error_in(text: str) -> BaseException | None:
    """Return the last error of a log or a traceback, linked to what it came from; None where there is none."""
    error: BaseException | None = None
    link = ""
    for part in re.split(rf"({re.escape(_CAUSE)}|{re.escape(_CONTEXT)})", text):
        if part in {_CAUSE, _CONTEXT}:
            link = part
            continue
        found = _one(part)
        if found is None:
            continue
        if link == _CAUSE:
            found.__cause__ = error
        elif link == _CONTEXT:
            found.__context__ = error
        error, link = found, ""
    return error


def _one(text: str) -> BaseException | None:
    """Read the last traceback of a text: its frames are indented, the line after them names the error."""
    if _START not in text:
        return None
    lines = text.rpartition(_START)[2].splitlines()
    for number, line in enumerate(lines):
        if not line.strip() or line[0] in " \t":
            continue
        match = _LAST_LINE.fullmatch(line.strip())
        if match is None:
            return None
        more = [rest for rest in lines[number + 1 :] if rest.strip()]
        message = "\n".join([match["message"] or "", *more]).strip()
        return error_named(match["name"], message)
    return None
