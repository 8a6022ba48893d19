"""The generated pages of docs/reference are up to date and complete."""

from __future__ import annotations

from pathlib import Path

import pytest

import outlast
from outlast import Category
from outlast.classify.libraries import FILES, load

ROOT = Path(__file__).resolve().parents[2]
TOOL = ROOT / "tools" / "reference.py"
CLASSIFICATION = (ROOT / "docs" / "reference" / "classification.md").read_text("utf-8")


@pytest.fixture
def tool(tmp_path, monkeypatch):
    """The tool with a folder of its own and two small pages. `make lint` compares the real ones."""
    monkeypatch.syspath_prepend(TOOL.parent)
    import reference

    monkeypatch.setattr(reference, "ROOT", tmp_path)
    monkeypatch.setattr(reference, "PAGES", tmp_path)
    monkeypatch.setattr(reference, "made", lambda: {"events.md": "# Events", "api/outlast.md": "# outlast"})
    return reference


def test_a_page_that_differs_is_named_and_written(tool, tmp_path, capsys):
    assert tool.main(["--check"]) == 1
    assert "out of date: events.md, api/outlast.md; run: make docs" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())

    assert tool.main([]) == 0
    assert (tmp_path / "events.md").read_text("utf-8") == "# Events"
    assert tool.main(["--check"]) == 0


def test_a_page_of_a_module_that_is_gone_is_named_and_removed(tool, tmp_path, capsys):
    tool.main([])
    gone = tmp_path / "api" / "outlast.gone.md"
    gone.write_text("# outlast.gone")

    assert tool.main(["--check"]) == 1
    assert "api/outlast.gone.md" in capsys.readouterr().err
    assert tool.main([]) == 0
    assert not gone.exists()


def test_every_variable_of_the_environment_is_told(tool):
    import reference_settings

    assert reference_settings.variables() == sorted(reference_settings.VARIABLES)


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


def test_every_home_of_a_public_name_is_known():
    assert sorted(outlast._HOMES) == sorted(outlast.__all__)
