"""What people get from `pip install outlast`: the built wheel, in an environment that has nothing else."""

import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
pytestmark = pytest.mark.xdist_group("distribution")


def run(*command, cwd=None):
    done = subprocess.run(
        [str(each) for each in command], capture_output=True, text=True, cwd=cwd, timeout=110, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "hatchling", "build", "-d", folder, cwd=ROOT)
    return folder


def wheel_of(built):
    return next(built.glob("outlast-*.whl"))


@pytest.fixture(scope="module")
def bare(built, tmp_path_factory):
    """The wheel alone: the core installs nothing."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "--no-index", "--no-deps", "-q", wheel_of(built))
    return folder


def test_the_wheel_holds_code_queries_and_pages(built):
    with zipfile.ZipFile(wheel_of(built)) as wheel:
        names = wheel.namelist()
    assert "outlast/py.typed" in names
    for ending in (".sql", ".html", ".css", ".js"):
        assert any(name.endswith(ending) for name in names), ending
    assert not [name for name in names if name.startswith(("tests/", "tools/", "docs/"))]


def test_the_source_distribution_can_be_built_again(built):
    with tarfile.open(next(built.glob("outlast-*.tar.gz"))) as source:
        names = source.getnames()
    assert any(name.endswith("/pyproject.toml") for name in names)
    assert any(name.endswith("/src/outlast/__init__.py") for name in names)


def test_the_core_works_in_an_empty_environment(bare, tmp_path):
    program = "import outlast; print(outlast.classify(TimeoutError('x')).category.value)"
    assert run(bare / "bin" / "python", "-c", program, cwd=tmp_path) == "network\n"


def test_the_command_tells_its_version_in_an_empty_environment(bare, tmp_path):
    import outlast

    assert outlast.__version__ in run(bare / "bin" / "outlast", "--version", cwd=tmp_path)


def test_the_command_without_its_extra_says_what_to_install(bare, tmp_path):
    done = subprocess.run(
        [bare / "bin" / "outlast", "status"], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.returncode == 1
    assert "pip install 'outlast[cli]'" in done.stderr


def test_explain_works_once_the_extra_is_there(built, tmp_path_factory):
    folder = tmp_path_factory.mktemp("extra")
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    run(
        sys.executable, "-m", "pip", "--python", python, "install", "-q", "-c", ROOT / "constraints.txt",
        f"{wheel_of(built)}[cli]",
    )  # fmt: skip
    assert "rate_limit" in run(folder / "bin" / "outlast", "explain", "429", cwd=folder)
