"""The pages of the documentation: where they are, where their links lead, and how their Python is run."""

import contextlib
import io
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
FENCE = re.compile(r"^```([^\n`]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]*)(#[^)\s]*)?\)")
RUN = ("tutorial", "how-to", "recipes", "migrating", "comparison", "explanation")
PAGES = [ROOT / "README.md", *(page for folder in RUN for page in sorted(DOCS.glob(f"{folder}/*.md")))]


def name_of(page):
    return str(page.relative_to(ROOT))


def read(path):
    """The text of a page, by its path below docs."""
    return (DOCS / path).read_text("utf-8")


def run(page, folder, hosts, **names):
    """Run the Python of a page in the current process.

    Blocks run in order in one namespace; a text block after one is what it prints, a toml block is the settings, which
    are written to the folder. A block that is marked ``no-run`` is left out. ``hosts`` has the servers that a page talks
    to by the addresses that it writes, because tests that run at the same time cannot share a port.
    """
    text = page.read_text("utf-8")
    for written, real in hosts.items():
        text = text.replace(written, real)
    namespace, printed = {"__name__": "__main__" if "__main__" in text else page.stem, **names}, None
    for block in FENCE.finditer(text):
        kind, content = block[1].strip(), block[2]
        line = text.count("\n", 0, block.start()) + 1
        if kind == "python":
            out = io.StringIO()
            code = compile("\n" * line + content, name_of(page), "exec")  # errors show the page's own lines
            with contextlib.redirect_stdout(out):
                exec(code, namespace)
            printed = out.getvalue()
        elif kind == "text":
            assert printed is not None, f"line {line}: nothing ran before"
            assert printed.strip() == content.strip(), f"line {line} is not what was printed, which is:\n{printed}"
            printed = None
        elif kind == "toml":
            (folder / "outlast.toml").write_text(content, "utf-8")


def dead_links(page):
    """The links of a page that lead nowhere in the repository."""
    found = LINK.findall(FENCE.sub("", page.read_text("utf-8")))
    return [
        target + anchor for target, anchor in found if not target.startswith("http") and _dead(page, target, anchor)
    ]


def _dead(page, target, anchor):
    file = (page.parent / target).resolve() if target else page
    return not file.exists() or (anchor and anchor[1:] not in anchors(file))


def anchors(file):
    """The anchors of a page's headings, as the web view of a repository makes them."""
    seen = {}
    for heading in re.findall(r"^#+ (.+)$", FENCE.sub("", file.read_text("utf-8")), re.MULTILINE):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        seen[slug] = seen.get(slug, -1) + 1
        if seen[slug]:
            seen[f"{slug}-{seen[slug]}"] = 0
    return seen
