"""A docstring in Google style as Markdown: paragraphs, and what stands under Args, Attributes, Returns, Raises.

Used by reference_api.py and reference_settings.py.
"""

import inspect
import re
import textwrap

WIDTH = 118
SECTIONS = {
    "Args": "Arguments",
    "Attributes": "Attributes",
    "Returns": "Returns",
    "Yields": "Yields",
    "Raises": "Raises",
}
_SECTION = re.compile(r"^(Args|Attributes|Returns|Yields|Raises):$", re.MULTILINE)
_NAMED = re.compile(r"(\*{0,2}[\w., ]+?): (.*)", re.DOTALL)


def item(text: str) -> str:
    """Return one wrapped list item."""
    lines = textwrap.wrap(text, WIDTH - 2, break_long_words=False, break_on_hyphens=False)
    return "- " + "\n  ".join(lines)


def paragraph(text: str) -> str:
    """Return a wrapped paragraph."""
    return textwrap.fill(" ".join(text.split()), WIDTH, break_long_words=False, break_on_hyphens=False)


def first(thing: object) -> str:
    """Return the first paragraph of a docstring on one line."""
    return " ".join((inspect.getdoc(thing) or "").partition("\n\n")[0].split())


def described(thing: object) -> dict[str, str]:
    """Return what a docstring says of each argument or attribute, by its name."""
    titled = _SECTION.split(inspect.getdoc(thing) or "")[1:]
    found: dict[str, str] = {}
    for title, body in zip(titled[::2], titled[1::2], strict=True):
        if title in {"Args", "Attributes"}:
            found |= dict(_named(each) for each in _items(body))
    return found


def documented(thing: object) -> str:
    """Return a whole docstring as Markdown."""
    told, *titled = _SECTION.split(inspect.getdoc(thing) or "")
    parts = [_part(each) for each in re.split(r"\n\s*\n", told.strip("\n")) if each.strip()]
    for title, body in zip(titled[::2], titled[1::2], strict=True):
        lines = [_line(*_named(each)) for each in _items(body)]
        parts.append(f"{SECTIONS[title]}:\n\n" + "\n".join(item(line) for line in lines))
    return "\n\n".join(parts)


def _part(text: str) -> str:
    if text.lstrip().startswith(">>>"):
        return f"```python-console\n{textwrap.dedent(text)}\n```"
    if text.startswith("    "):  # what is indented is code, or a drawing
        return f"```text\n{textwrap.dedent(text)}\n```"
    if re.match(r"[-*] ", text):
        return text
    return paragraph(text)


def _items(body: str) -> list[str]:
    """Return the entries of a section: what is indented further goes on with the entry before."""
    entries: list[str] = []
    for line in textwrap.dedent(body.strip("\n")).splitlines():
        if line.startswith(" ") and entries:
            entries[-1] += f" {line.strip()}"
        elif line.strip():
            entries.append(line.strip())
    return entries


def _named(entry: str) -> tuple[str, str]:
    found = _NAMED.fullmatch(entry)
    return (found[1], found[2]) if found else ("", entry)


def _line(name: str, text: str) -> str:
    return f"`{name}`: {text}" if name else text
