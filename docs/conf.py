# ruff: noqa: INP001  # a folder of pages, not a package
"""The site: `make docs` builds it into build/docs, without the network.

The pages are Markdown that can also be read in the repository. A link is a path relative to its file in both cases.
Files outside this folder, such as the changelog, are included as pages of `project/`. The site also has the Markdown of
each page beside its HTML, and `llms.txt`, which lists all of it (https://llmstxt.org).
"""

import os
import re
import sys
from pathlib import Path

from sphinx.application import Sphinx

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
sys.path.insert(0, str(ROOT / "src"))

import outlast  # noqa: E402  # from this repository, installed or not

project = "Outlast"
author = "The Outlast authors"
release = version = outlast.__version__
extensions = ["myst_parser"]
root_doc = "index"
exclude_patterns = ["README.md", "_static"]
nitpicky = True
highlight_language = "text"
pygments_style = "friendly"
pygments_dark_style = "github-dark"
myst_heading_anchors = 4  # the same as in the repository, down to the fourth level
myst_enable_extensions = ["colon_fence"]

_ACCENT = {"light": "#0b6470", "dark": "#5cc5cf"}
_PLAIN = 'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "Liberation Sans", Arial, sans-serif'

html_theme = "furo"
html_title = "Outlast"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_favicon = html_logo = "../src/outlast/web/static/mark.svg"
html_copy_source = html_show_sourcelink = html_show_copyright = False
html_theme_options = {
    f"{look}_css_variables": {
        "color-brand-primary": accent,
        "color-brand-content": accent,
        "color-brand-visited": accent,
        "font-stack": _PLAIN,
    }
    for look, accent in _ACCENT.items()
}

INCLUDED = {
    "project/changelog": ROOT / "CHANGELOG.md",
    "project/containers": ROOT / "examples" / "container" / "README.md",
    "project/contributing": ROOT / "CONTRIBUTING.md",
    "project/measured-speed": ROOT / "benchmarks" / "RESULTS.md",
    "project/security": ROOT / "SECURITY.md",
}
BELOW = {"decisions/README": "0*", "reference/api": "api/*"}  # pages below a page
_LIST = "[All pages](README.md)"  # in index.md; the site replaces it with the list itself
_FENCED = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
_IMAGE = re.compile(r"(!\[[^\]]*\]\()(?:\.\./)*(?:docs/)?images/")
_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\((?!\w+:)([^)#\s]+)(#[^)\s]*)?\)")


def _placed(text: str, file: Path, docname: str) -> str:
    """Return the text of a file with its links rewritten for the page that includes it."""
    taken = {each: name for name, each in INCLUDED.items()} | {DOCS / "README.md": "index", ROOT / "README.md": "index"}
    page = DOCS / docname

    def link(found: re.Match[str]) -> str:
        words, target, anchor = found[1], (file.parent / found[2]).resolve(), found[3] or ""
        if target.is_dir() and (target / "README.md").is_file():
            target /= "README.md"
        if target in taken:
            target = DOCS / f"{taken[target]}.md"
        if not target.is_relative_to(DOCS) or target.is_dir():
            return words  # a file or folder of the repository, which the site does not have
        return f"[{words}]({os.path.relpath(target, page.parent)}{anchor})"

    parts = _FENCED.split(text)
    return "".join(part if part.startswith("```") else _LINK.sub(link, part) for part in parts)


def _tree(entries: str, *options: str) -> str:
    return "\n".join(["", "```{toctree}", ":hidden:", *options, "", entries, "```", ""])


def _trees(listed: str) -> str:
    """Return the navigation: the pages in the list of all pages, in its order, then the other pages."""
    titles = re.split(r"^(?:## |\*\*)([\w ]+?)(?:\*\*)?$", listed, flags=re.MULTILINE)[1:]
    trees, left = [], {str(page.relative_to(DOCS))[:-3] for page in DOCS.glob("*/*.md")}
    left -= {name for name in left if name.startswith("decisions/0")}
    for caption, body in zip(titles[::2], titles[1::2], strict=True):
        names = [found[2].removesuffix(".md") for found in _LINK.finditer(body)]
        named = [name for name in dict.fromkeys(names) if name in left]
        left -= set(named)
        trees += [_tree("\n".join(named), f":caption: {caption}")] if named else []
    return "".join(trees) + (_tree("\n".join(sorted(left)), ":caption: More") if left else "")


def _markdown(docname: str) -> tuple[str, str]:
    """Return the Markdown of a page, with links that hold on the site, and the list of all pages if it has it."""
    file = INCLUDED.get(docname, DOCS / f"{docname}.md")
    text = _placed(file.read_text("utf-8").replace(_LIST, "\N{NULL}"), file, docname)
    if docname != root_doc:
        return text, ""
    listed = _placed((DOCS / "README.md").read_text("utf-8").partition("\n")[2], DOCS / "README.md", docname)
    return text.replace("\N{NULL}", listed), listed


def _read(_app: Sphinx, docname: str, source: list[str]) -> None:
    """Include files from outside this folder, and the list of all pages."""
    text, listed = _markdown(docname)
    if docname in BELOW:
        text += _tree(BELOW[docname], ":glob:")
    source[0] = text + (_trees(listed) if listed else "")


def _title(text: str) -> str:
    return _LINK.sub(r"\1", re.findall(r"^# (.+)$", text, re.MULTILINE)[0])


def _summary(text: str) -> str:
    """Return the first sentence of a page: of its first paragraph that is not a list, a table, code or a picture."""
    for block in re.split(r"\n\s*\n", _FENCED.sub("", text.partition("\n")[2])):
        prose = " ".join(_LINK.sub(r"\1", block).split())
        if prose and prose[0] not in "#<|-!>:":
            return re.split(r"(?<=[.!?])\s", prose)[0].rstrip(":")
    return ""


def _llms(texts: dict[str, str]) -> str:
    """Return llms.txt: every page with its title, its Markdown and one line about it, as listed."""
    lines, left = [f"# {project}", "", f"> {_summary(texts[root_doc])}", ""], dict.fromkeys(sorted(texts))
    left.pop(root_doc)

    def entry(name: str, about: str = "") -> str:
        left.pop(name, None)
        about = about or _summary(texts[name])
        return f"- [{_title(texts[name])}]({name}.md)" + (f": {about}" if about else "")

    titles = re.split(r"^## (.+)$", _markdown(root_doc)[1], flags=re.MULTILINE)[1:]
    for caption, body in zip(titles[::2], titles[1::2], strict=True):
        lines += [f"## {caption}", ""]
        for item in re.split(r"^- ", body, flags=re.MULTILINE)[1:]:
            item = " ".join(item.partition("\n\n")[0].split())  # noqa: PLW2901  # without what follows the list
            names = [found[2].removesuffix(".md") for found in _LINK.finditer(item)]
            about = _LINK.sub(r"\1", item).partition(": ")[2] if len(names) == 1 else ""
            lines += [entry(name, about if index == 0 else "") for index, name in enumerate(names) if name in left]
        lines.append("")
    return "\n".join([*lines, "## Optional", "", *[entry(name) for name in list(left)], ""])


def _finished(app: Sphinx, failed: Exception | None) -> None:
    """Write the Markdown of each page and llms.txt."""
    if failed is not None or app.builder.format != "html":
        return
    texts = {name: _markdown(name)[0] for name in app.env.all_docs}
    folder = Path(app.outdir)
    for name, text in texts.items():
        (folder / f"{name}.md").write_text(_IMAGE.sub(rf"\1{'../' * name.count('/')}_images/", text), "utf-8")
    (folder / "llms.txt").write_text(_llms(texts), "utf-8")


def _outside(app: Sphinx, _env: object, _added: set[str], _changed: set[str], _removed: set[str]) -> list[str]:
    """Read these pages on every build, because their content is in other files."""
    return [name for name in (*INCLUDED, root_doc) if name in app.env.all_docs]


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the handlers with Sphinx."""
    app.connect("source-read", _read)
    app.connect("env-get-outdated", _outside)
    app.connect("build-finished", _finished)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
