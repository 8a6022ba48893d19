"""The environment of users' projects, in which pytest finds the plugin by its entry point."""

import os

import pytest

from integration.testing.projects import declared, installed, is_outdated


@pytest.fixture(scope="session")
def environment(tmp_path_factory):
    """Nothing where Outlast is installed as it is declared; else the path of a package that has its entry points.

    That stands in for an installation from before the project file was changed, and for no other.
    """
    if installed() or not is_outdated():
        return {}
    folder = tmp_path_factory.mktemp("installed")
    metadata = folder / "outlast_declared-0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: outlast-declared\nVersion: 0\n")
    lines = [f"{name} = {value}\n" for name, value in declared().items()]
    (metadata / "entry_points.txt").write_text(f"[pytest11]\n{''.join(lines)}")
    return {"PYTHONPATH": os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))}
