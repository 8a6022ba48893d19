"""From the text of a traceback or a log back to an error that can be judged, with its causes."""

import re

from outlast.cli.subjects import error_named

__all__ = ["error_in"]

_START = "Traceback (most recent call last):"
_CAUSE = "The above exception was the direct cause of the following exception:"
_CONTEXT = "During handling of the above exception, another exception occurred:"
_LINE = re.compile(r"(?P<name>[A-Za-z_][\w.]*)(?:: (?P<message>.*))?")
_IN_A_LOG = re.compile(
    r"(?P<name>(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Timeout|TimedOut|Interrupt|Exit)): (?P<message>.*)"
)
_FRAME_OF_A_GROUP = re.compile(r"^\s*[|+][-|+ ]*(?:\d+ -+)?\s?", re.MULTILINE)


def error_in(text: str) -> BaseException | None:
    """Return the last error of a log or a traceback, linked to what it came from; None where there is none."""
    if "Exception Group Traceback" in text:
        return _group(text)
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
    return error or _in_a_log(text)


def _one(text: str) -> BaseException | None:
    """Read the last traceback of a text: its frames are indented, the line after them names the error."""
    if _START not in text:
        return None
    for line in text.rpartition(_START)[2].splitlines():
        if line.strip() and line[0] not in " \t":
            match = _LINE.fullmatch(line.strip())
            return error_named(match["name"], match["message"] or "") if match else None
    return None


def _group(text: str) -> BaseException | None:
    """Read the traceback of an exception group: the errors in it, each after frames of its own."""
    parts = _FRAME_OF_A_GROUP.sub("", text).split(_START)[1:]
    leaves = [leaf for part in parts if (leaf := _one(_START + _indented(part))) is not None]
    plain = [leaf for leaf in leaves if isinstance(leaf, Exception) and not isinstance(leaf, BaseExceptionGroup)]
    return ExceptionGroup("the errors of the traceback", plain) if plain else None


def _indented(part: str) -> str:
    """Put frames back behind the indent that the group's drawing took away."""
    return re.sub(r"^(File \".*|(?<=\n)\s*\S.*(?=\n(?:File|\s*\^)))", r"  \1", part, flags=re.MULTILINE)


def _in_a_log(text: str) -> BaseException | None:
    """Find the last line of a log that names an error and says something of it."""
    for line in reversed(text.splitlines()):
        match = _IN_A_LOG.search(line)
        if match:
            return error_named(match["name"], match["message"])
    return None
