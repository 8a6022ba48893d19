"""The pages docs/reference/api*: signature and docstring of every public name. Used by reference.py."""

import ast
import enum
import importlib
import inspect
import pkgutil
import re
import sys
from collections import Counter
from datetime import timedelta
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from types import ModuleType

from reference_docstrings import WIDTH, documented, first, item, paragraph

import outlast
import outlast.engines

NOTICE = "<!-- Made by tools/reference.py from the code; `make docs` writes it anew. Changes by hand are lost. -->"
MODULES: dict[str, tuple[str, ...]] = {  # public modules; of those with names, these alone
    "outlast": (),
    "outlast.errors": (),
    "outlast.http": (),
    "outlast.health": (),
    "outlast.worker": (),
    "outlast.testing": (),
    "outlast.testing.server": ("serve",),
    "outlast.web": (),
    "outlast.web.server": (),
    "outlast.jobs.etl": (),
    "outlast.redact": (),
    "outlast.config": (),
    "outlast.ports.rows": (),
    "outlast.ports.source_rows": (),
    "outlast.ports.job_rows": (),
    "outlast.ports.read_rows": (),
    "outlast.simulate": (),
    "outlast.queue.dead_letters": ("DeadLetterBox", "DeadLetterHistory", "DeadLetterTriage", "DryRun", "Handled"),
    "outlast.queue.task_reader": (),
    "outlast.sources.registry": (),
    "outlast.sources.feed": (),
    "outlast.decide.gate": ("Counts", "GateResult"),
    "outlast.observe.channels": (),
    "outlast.observe.alert_delivery": (),
    "outlast.observe.messages": (),
    "outlast.observe.prometheus": ("exposition", "metrics"),
    "outlast.observe.otel": ("instrument", "uninstrument"),
    "outlast.observe.json_logs": ("JsonFormatter",),
    "outlast.observe.log_keys": ("outlast_keys", "redacted_exception"),
    "outlast.observe.observation_log": (),
    "outlast.stores.postgres.store": (),
}


def public() -> dict[str, list[str]]:
    """Return the public names of each public module; engines are public as they come."""
    engines = [f"outlast.engines.{each.name}" for each in pkgutil.iter_modules(outlast.engines.__path__)]
    found = {name: () for name in engines if "_" not in name}
    titles = MODULES | found
    return {title: list(names or importlib.import_module(title).__all__) for title, names in titles.items()}


def attribute_doc(name: str, module: ModuleType | None = None) -> str:
    """Return the text under the assignment of a constant, in a module or wherever in the package it stands."""
    files = [Path(module.__file__)] if module else sorted(Path(outlast.__file__).parent.rglob("*.py"))
    for file in files:
        body = ast.parse(file.read_text("utf-8")).body
        body += [
            each for node in body if isinstance(node, ast.If) for each in node.body
        ]  # what type checkers alone see
        for node, below in pairwise(body):
            target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
            said = isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
            if isinstance(target, ast.Name) and target.id == name and said:
                return " ".join(below.value.value.split())
    return ""


class _Shown:
    """A default value or an annotation as it is written, without an address in memory."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def _default(value: object, home: dict[str, object]) -> _Shown:
    if isinstance(value, enum.Enum):
        return _Shown(f"{type(value).__name__}.{value.name}")
    if inspect.isroutine(value):
        return _Shown(f"{value.__module__}.{value.__name__}")
    if isinstance(value, timedelta):
        return _Shown(repr(value).removeprefix("datetime."))
    if isinstance(value, int | float | str | tuple | None):
        return _Shown(repr(value))
    return _Shown(next((name for name, each in home.items() if each is value), "..."))


def _annotation(value: object) -> _Shown:
    text = value if isinstance(value, str) else inspect.formatannotation(value)
    return _Shown(re.sub(r"~|\b(?:[a-z_]\w*\.)+(?=[A-Z])", "", text))


def signature(thing: object) -> str:
    """Return the signature of something callable, the same on every machine."""
    try:
        found = inspect.signature(thing)
    except ValueError:  # an exception that leaves its arguments to Exception
        return "(*args)"
    home = vars(sys.modules[thing.__module__])
    parameters = [
        each.replace(
            default=each.empty if each.default is each.empty else _default(each.default, home),
            annotation=each.empty if each.annotation is each.empty else _annotation(each.annotation),
        )
        for each in found.parameters.values()
        if each.name not in {"self", "cls"}
    ]
    returned = found.return_annotation
    known = not isinstance(thing, type) and returned is not found.empty
    return str(found.replace(parameters=parameters, return_annotation=_annotation(returned) if known else found.empty))


def _unfolded(text: str) -> str:
    """Put each parameter of a long signature on a line of its own."""
    if len(text) <= WIDTH:
        return text
    lines, depth, closed = [""], 0, False
    for char in text:
        depth += (char in "([") - (char in ")]")
        if char == ")" and depth == 0 and not closed:
            closed = True  # what follows is what is returned
            lines.append("")
        lines[-1] += char
        if depth == 1 and char in "(," and not closed:
            lines.append("")
    return "\n".join(line if line[:1] == ")" or line is lines[0] else f"    {line.strip()}" for line in lines)


def methods(kind: type) -> list[str]:
    """Return a line for every public method and property that a class itself defines."""
    lines = []
    for name, value in vars(kind).items():
        if name.startswith("_"):
            continue
        function = getattr(value, "__func__", value)
        shown = "" if not inspect.isfunction(function) else signature(function)
        described = inspect.isfunction(function) or isinstance(value, property | cached_property)
        if described:
            lines.append(item(f"`.{name}{shown}`: {first(function)}"))
    return lines


def entry(owner: ModuleType, name: str) -> str:
    """Return the entry of one public name."""
    thing = getattr(owner, name)
    if isinstance(thing, ModuleType):  # a package that is called like its function
        thing = vars(thing).get(name, thing)
    if isinstance(thing, ModuleType):
        page = thing.__name__ if thing.__name__ in MODULES else f"../{name}"  # a page of its own
        return f"## `{name}`\n\nThe module [`{thing.__name__}`]({page}.md)."
    if isinstance(thing, enum.EnumType):
        members = ", ".join(f"`{each.name}`" for each in thing)
        return f"## `{name}`\n\n{first(thing)}\n\n{item(f'Members: {members}')}"
    if not (isinstance(thing, type) or inspect.isfunction(thing)):
        value = f" = {thing!r}" if isinstance(thing, int | str) else ""
        said = attribute_doc(name, owner) or attribute_doc(name)  # two modules may use one name
        return f"## `{name}{value}`\n\n{said or f'A `{type(thing).__name__}`.'}"
    parts = [f"## `{name}`", f"```python\n{_unfolded(name + signature(thing))}\n```", documented(thing)]
    if isinstance(thing, type) and not issubclass(thing, BaseException):
        lines = methods(thing)
        parts.append("Methods and properties:\n\n" + "\n".join(lines) if lines else "")
    return "\n\n".join(part for part in parts if part)


def api() -> dict[str, str]:
    """Return the pages by their paths: one for each module, and one that lists all names."""
    names = public()
    pages = {f"api/{title}.md": _module(title, named) for title, named in names.items()}
    rows = [f"# API\n\n{NOTICE}\n\nEvery public name, by the module it is imported from."]
    for title, named in names.items():
        module = importlib.import_module(title)
        anchors = _anchors(pages[f"api/{title}.md"])
        links = [f"[`{name}`](api/{title}.md#{anchors[name]})" for name in named if name in anchors]
        rows.append(f"## [{title}](api/{title}.md)\n\n{first(module)}\n\n" + paragraph(", ".join(links)))
    return {"api.md": "\n\n".join(rows) + "\n"} | pages


def _module(title: str, names: list[str]) -> str:
    """Return the page of one module."""
    module = importlib.import_module(title)
    known = [name for name in names if title != "outlast" and name in outlast.__all__]
    parts = [f"# {title}\n\n{NOTICE}\n\n{documented(module)}"]
    parts += [entry(module, name) for name in names if name not in known]
    if known:
        links = ", ".join(f"`{name}`" for name in known)
        parts.append(f"Also here, and described with [outlast](outlast.md): {links}.")
    return "\n\n".join(parts) + "\n"


def _anchors(page: str) -> dict[str, str]:
    """Return the anchors of the names on a page, as repository and site make them."""
    seen: Counter[str] = Counter()
    found = {}
    for heading in re.findall(
        r"^#+ (.+)$", re.sub(r"^```.*?^```$", "", page, flags=re.MULTILINE | re.DOTALL), re.MULTILINE
    ):
        slug = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        found[re.match(r"`?(\w+)", heading)[1]] = f"{slug}-{seen[slug]}" if seen[slug] else slug
        seen[slug] += 1
    return found
