"""A source with three reports, and an empty shelf."""

# ruff: noqa: ANN001, ANN201  # fixtures need no annotations

import pytest


@pytest.fixture(autouse=True)
def shelf(tmp_path, monkeypatch):
    """Return the folder in which the collector puts reports."""
    source, shelf = tmp_path / "source", tmp_path / "shelf"
    for folder in (source, shelf):
        folder.mkdir()
    for day in ("monday", "tuesday", "wednesday"):
        (source / f"{day}.txt").write_text(f"report of {day}", "utf-8")
    monkeypatch.setenv("COLLECTOR_SOURCE", source.as_uri())
    monkeypatch.setenv("COLLECTOR_SHELF", str(shelf))
    return shelf
