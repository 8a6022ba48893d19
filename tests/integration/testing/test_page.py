"""docs/how-to/test-your-failure-handling.md: its program and its tests, as a reader would have them in two files."""

import re

import pytest

from integration.testing.projects import ROOT, Project, names

PAGE = (ROOT / "docs" / "how-to" / "test-your-failure-handling.md").read_text("utf-8")
_FILE = re.compile(r"^```python file\n# (\w+\.py)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def project(tmp_path, environment):
    project = Project(tmp_path, environment)
    project.write("pytest.ini", "[pytest]\npythonpath = .\n")
    files = {}
    for name, text in _FILE.findall(PAGE):
        files[name] = files.get(name, "") + text
    for name, text in files.items():
        project.write(name, text)
    return project


def test_its_tests_pass(project):
    text, code = project.run()

    assert code == 0, text
    written = set(re.findall(r"^def (test_\w+)\(.*(?:app|outlast_)", PAGE, re.MULTILINE))
    assert {name.partition("[")[0] for name in names(text, "PASSED")} == written
    assert len(written) == 6
    assert "6 passed, 1 skipped" in text


def test_every_file_of_the_page_is_run_here():
    assert PAGE.count("```python file") == len(_FILE.findall(PAGE))


def test_every_public_name_and_fixture_is_there():
    import outlast.testing
    from outlast.testing import plugin

    types = {"AppMaker", "Crashed", "Decisions", "Drained", "FakeClock", "Fault", "Faults", "NotReachedError"}
    wanted = set(outlast.testing.__all__) - types | {name for name in vars(plugin) if name.startswith("outlast_")}

    assert [name for name in sorted(wanted) if f"`{name}" not in PAGE] == []


def test_what_the_page_shows_of_a_report_is_what_is_shown(project):
    """The lines of the block without a language after `print(decisions)`."""
    file = project.folder / "test_shop.py"
    file.write_text(file.read_text().replace('retries("price_of") == 0', 'retries("price_of") == 1'))
    shown = re.search(r"^-+ Outlast decisions -+\n(.+)\n", PAGE, re.MULTILINE)[1]

    text, code = project.run("-k", "price_that_is_not_there")

    assert code == 1
    assert f"\n{shown}\n" in text
