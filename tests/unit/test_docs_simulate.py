"""The pages about simulations: their commands run, their files are valid, their charts are what the tool draws."""

import re
import shlex
import sys

import pytest

from cli_world import make_world  # noqa: F401  # a fixture
from doc_pages import DOCS, FENCE, ROOT

PAGES = ("tutorial/choose-a-policy.md", "explanation/retry-storms.md", "how-to/replay-recorded-history.md")


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_run(page, world):
    """In order, in a folder with the files of the page; only the number of runs is smaller, to take less time.

    A block without a language after a command is what it prints, with all its runs.
    """
    kinds, text = [], (DOCS / page).read_text("utf-8")
    blocks = list(FENCE.finditer(text))
    world.app().create_schema()
    (world.folder / "new.toml").write_text("[policies.patient]\nmax_attempts = 8\n")  # as the tutorial writes it
    for block, following in zip(blocks, [*blocks[1:], None], strict=True):
        kind, content = block[1].strip(), block[2]
        kinds.append(kind)
        printed = following[2] if following is not None and not following[1].strip() else None
        if kind.startswith("toml "):
            (world.folder / kind.removeprefix("toml ")).write_text(content)
        elif kind == "sh":
            for line in content.splitlines():
                words = shlex.split(line)
                assert words[:2] == ["outlast", "simulate"]
                fewer = [] if "--runs" in words or printed else ["--runs", 1]
                assert (printed or "\n") in world.run(*words[1:], *fewer).stdout

    assert set(kinds) <= {"", "python", "text", "sh", "toml outage.toml", "toml new.toml"}, "other blocks would not run"


def test_the_charts_are_what_the_tool_draws():
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        import charts
    finally:
        sys.path.pop(0)
    drawn = charts.charts()
    pages = [
        (DOCS / name).read_text("utf-8") for name in ("explanation/retry-storms.md", "tutorial/choose-a-policy.md")
    ]
    shown = [name for page in pages for name in re.findall(r"\(\.\./images/([\w.-]+)\)", page)]

    assert {name: (DOCS / "images" / name).read_text("utf-8") for name in drawn} == drawn, "run: make charts"
    assert shown == list(drawn)
