"""The pages of the documentation: where they are, where their links lead, and how their Python is run."""

import contextlib
import io
import os
import re
import signal
import sys
import threading
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
FENCE = re.compile(r"^```([^\n`]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_RUN = ("python", "python file", "python until-stopped")
LINK = re.compile(r"\]\(([^)#\s]*)(#[^)\s]*)?\)")
FOLDERS = ("tutorial", "how-to", "recipes", "migrating", "comparison", "explanation")
PAGES = [
    ROOT / "README.md",
    ROOT / "README.ja.md",
    DOCS / "index.md",
    *(page for folder in FOLDERS for page in sorted(DOCS.glob(f"{folder}/*.md"))),
]


def name_of(page):
    return str(page.relative_to(ROOT))


def read(path):
    """The text of a page, by its path below docs."""
    return (DOCS / path).read_text("utf-8")


def examples(page):
    """How many blocks of a page run, and what the others say after the fence."""
    kinds = [block[1].strip() for block in FENCE.finditer(page.read_text("utf-8"))]
    kinds = [kind for kind in kinds if kind.partition(" ")[0] == "python"]
    skipped = [kind for kind in kinds if kind not in _RUN]
    return len(kinds) - len(skipped), skipped


def run(page, folder, hosts, **names):
    """Run the Python of a page in the current process.

    Blocks run in order, as one module; a text block after one is what it prints, a toml block is the settings, which
    are written to the folder. What a block may have after ``python``:

    - ``until-stopped``: a program that runs until it gets SIGTERM, which it gets once it handles the signal.
    - ``file``: a file, named in its first line; its blocks are written to the folder, and another test runs them.
    - ``no-run: REASON``: it is left out, and the page says why.

    ``hosts`` has the servers that a page talks to by the addresses that it writes, because tests that run at the same
    time cannot share a port.
    """
    text = page.read_text("utf-8")
    for written, real in hosts.items():
        text = text.replace(written, real)
    name = "__main__" if "__main__" in text else f"page_{page.stem}".replace("-", "_")
    module = ModuleType(name)
    module.__file__ = str(folder / f"{name}.py")
    Path(module.__file__).write_text(
        "".join(block[2] for block in FENCE.finditer(text) if block[1] == "python"), "utf-8"
    )
    namespace, printed = vars(module), None
    namespace.update(names)
    before = sys.modules.get(name)
    sys.modules[name] = module  # where other processes look up functions
    try:
        for block in FENCE.finditer(text):
            kind, content = block[1].strip(), block[2]
            line = text.count("\n", 0, block.start()) + 1
            if kind in {"python", "python until-stopped"}:
                out = io.StringIO()
                code = compile("\n" * line + content, name_of(page), "exec")  # errors show the page's own lines
                with contextlib.redirect_stdout(out), _stopped() if " " in kind else _may_exit(content):
                    exec(code, namespace)
                printed = out.getvalue()
            elif kind == "python file":
                with (folder / content.partition("\n")[0].removeprefix("# ")).open("a", encoding="utf-8") as file:
                    file.write(content)
            elif kind == "text":
                assert printed is not None, f"line {line}: nothing ran before"
                assert printed.strip() == content.strip(), f"line {line} is not what was printed, which is:\n{printed}"
                printed = None
            elif kind == "toml":
                (folder / "outlast.toml").write_text(content, "utf-8")
    finally:
        del sys.modules[name]
        if before:
            sys.modules[name] = before


def _may_exit(content):
    return contextlib.suppress(SystemExit) if "sys.exit(" in content else contextlib.nullcontext()


@contextlib.contextmanager
def _stopped():
    """Send this process SIGTERM once the program in the block handles it."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    ended = threading.Event()

    def stop():
        while signal.getsignal(signal.SIGTERM) == handlers[signal.SIGTERM]:
            if ended.wait(0.01):
                return
        os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=stop, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        for number, handler in handlers.items():
            signal.signal(number, handler)


def shell_commands(page):
    """The lines of a page's shell blocks, without prompts, and with what a backslash continues."""
    for block in FENCE.finditer(page.read_text("utf-8")):
        kind, content = block[1].strip(), block[2].replace("\\\n", " ")
        if kind == "console":
            yield from (line.removeprefix("$ ") for line in content.splitlines() if line.startswith("$ "))
        elif kind == "sh":
            yield from content.splitlines()
        elif kind in {"yaml", "ini", "dockerfile"}:
            yield from re.findall(r"(?:run: |ExecStart=|CMD )(.*)", content)


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


def table(text, section):
    """Return the rows of the table of a section whose first cell is code, as cells without their marks."""
    found = re.search(rf"^## {section}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)[1]
    lines = [line for line in found.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
