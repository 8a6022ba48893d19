"""The generated pages of docs/reference are up to date and complete."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast
from holdfast import Category
from holdfast.classify.libraries import FILES, load

ROOT = Path(__file__).resolve().parents[2]
TOOL = ROOT / "tools" / "reference.py"
CLASSIFICATION = (ROOT / "docs" / "reference" / "classification.md").read_text("utf-8")
API = (ROOT / "docs" / "reference" / "api.md").read_text("utf-8")


def test_a_page_that_differs_is_named(tmp_path):
    """The tool is copied, so that it looks for its pages beside the copy and finds none. `make lint` runs it here."""
    (tmp_path / "tools").mkdir()
    for file in TOOL.parent.glob("reference*.py"):
        (tmp_path / "tools" / file.name).write_text(file.read_text("utf-8"), "utf-8")

    command = [sys.executable, str(tmp_path / "tools" / "reference.py")]
    before = subprocess.run([*command, "--check"], capture_output=True, text=True, timeout=60, check=False)
    written = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert before.returncode == 1
    assert "docs/reference/classification.md" in before.stderr
    assert "make docs" in before.stderr
    assert written.returncode == 0
    assert (tmp_path / "docs" / "reference" / "classification.md").read_text("utf-8") == CLASSIFICATION


@pytest.mark.parametrize("category", list(Category))
def test_every_category_is_described(category):
    assert f"| `{category}` |" in CLASSIFICATION


@pytest.mark.parametrize("file", ["standard", *sorted(set(FILES.values()))])
def test_every_library_has_a_section(file):
    assert f"\n### {load(file).title}\n" in CLASSIFICATION


@pytest.mark.parametrize(
    "looked_up",
    [
        "`42P01`",
        "`57014`",
        "| 429 |",
        "`SlowDown`",
        "`httpx.ReadTimeout`",
        "`ENOSPC`",
        "SQLITE_BUSY",
        "Retry-After: 120",
    ],
)
def test_what_people_look_up_is_there(looked_up):
    assert looked_up in CLASSIFICATION


@pytest.mark.parametrize(
    "module", ["holdfast", "holdfast.errors", "holdfast.worker", "holdfast.redact", "holdfast.config"]
)
def test_every_public_name_is_described(module):
    names = importlib.import_module(module).__all__

    assert [name for name in names if f"`{name}`" not in API and f"`{name} = " not in API] == []
    assert f"\n## {module}\n" in API


def test_every_home_of_a_public_name_is_known():
    assert sorted(holdfast._HOMES) == sorted(holdfast.__all__)
