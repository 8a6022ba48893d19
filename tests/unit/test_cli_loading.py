"""MODULE:APP, and which store a command looks at."""

import subprocess
import sys

import pytest

from cli_world import in_one_line, make_world  # noqa: F401  # a fixture
from outlast.cli import _COMMANDS, cli


class TestModuleAndApp:
    @pytest.mark.parametrize(
        ("reference", "said"),
        [
            ("nowhere:app", "module 'nowhere' was not found"),
            ("jobs:nothing", "module jobs has no 'nothing'; it has jobs:app"),
            ("jobs:Shop.nothing", "has no 'Shop.nothing'; it has jobs:app"),
            ("jobs:not_an_app", "is of type int, not an App; it has jobs:app"),
            ("jobs:Shop", "is a type, not an App"),
            ("jobs", "does not name an app; write MODULE:APP; it has jobs:app"),
            ("jobs:", "does not name an app; write MODULE:APP; it has jobs:app"),
            ("jobs.py:app", "names a file; write the module as in an import: jobs:APP"),
            ("./shop/jobs.py:app", "import: shop.jobs:APP"),
            (":app", "is not a valid MODULE:APP"),
            ("json:app", "json has no variable that holds an App"),
        ],
    )
    def test_what_is_wrong_is_said(self, world, reference, said):
        result = world.run("worker", reference, code=2)

        assert said in in_one_line(result.stderr)
        assert result.stderr.count("\n") == 2
        assert result.stdout == ""

    def test_nested(self, world):
        assert world.json("enqueue", "jobs:Shop.app", "flaky")["created"] is True

    def test_a_module_that_fails_shows_where(self, world):
        (world.folder / "broken.py").write_text("import outlast\n1 / 0\n")
        result = world.run("worker", "broken:app", code=2)

        assert "line 2, in <module>" in result.stderr
        assert "importlib" not in result.stderr
        assert result.stderr.splitlines()[-2:] == [
            "Error: module broken cannot be imported: ZeroDivisionError: division by zero",
            "  the lines above show where",
        ]

    def test_the_traceback_of_a_module_shows_no_secrets(self, world):
        (world.folder / "outlast.toml").write_text("[redact]\npatterns = ['customer \\d+']\n")
        (world.folder / "leaking.py").write_text(
            "password = 'hunter2'\n"
            "def connect(dsn): raise RuntimeError(f'customer 4711: {dsn}')\n"
            "try: connect('postgresql://me:hunter2@db/shop')\n"
            "except RuntimeError as error: raise ValueError('api_key=hunter2') from error  # customer 4711\n"
        )
        result = world.run("worker", "leaking:app", code=2)

        assert "line 4, in <module>" in result.stderr
        assert "postgresql://***@db/shop" in result.stderr
        assert "hunter2" not in result.output
        assert "4711" not in result.output
        assert result.stderr.splitlines()[-2] == ("Error: module leaking cannot be imported: ValueError: api_key=***")

    def test_an_error_without_a_text(self, world):
        (world.folder / "mute.py").write_text(
            "class Mute(Exception):\n    def __str__(self): raise OSError\nraise Mute\n"
        )

        assert "Mute: its message cannot be read" in world.run("worker", "mute:app", code=2).stderr

    def test_a_module_whose_import_is_missing_is_not_said_to_be_missing(self, world):
        (world.folder / "lacking.py").write_text("import no_such_package\n")

        assert "lacking cannot be imported: ModuleNotFoundError" in world.run("worker", "lacking:app", code=2).stderr


class TestWhichStore:
    def test_nothing_said(self, world):
        result = world.run("status", code=2)

        assert "give --app MODULE:APP or --url URL, set OUTLAST_URL" in result.stderr
        assert not (world.folder / "outlast.db").exists()

    def test_the_file_that_is_there(self, world):
        world.enqueue("flaky")

        assert world.json("status")["counts"]["QUEUED"] == 1

    def test_argument_before_environment_before_file(self, world, monkeypatch):
        for name in ("a", "b", "c"):
            world.run("db", "init", "--url", f"sqlite:///{name}.db")
        (world.folder / "outlast.toml").write_text('[app]\nurl = "sqlite:///a.db"\n')
        assert world.json("status")["store"].endswith("a.db")
        monkeypatch.setenv("OUTLAST_URL", "sqlite:///b.db")
        assert world.json("status")["store"].endswith("b.db")
        assert world.json("status", "--url", "sqlite:///c.db")["store"].endswith("c.db")
        world.run("db", "init", "--app", "jobs:app")
        assert world.json("status", "--app", "jobs:app")["store"].endswith("outlast.db")

    def test_both(self, world):
        assert "not both" in world.run("status", "--app", "jobs:app", "--url", "sqlite:///x.db", code=2).stderr

    def test_a_mistyped_file_is_not_created(self, world):
        result = world.run("tasks", "list", "--url", "sqlite:///typo.db", code=2)

        assert "the file typo.db does not exist" in result.stderr
        assert list(world.folder.glob("typo*")) == []

    @pytest.mark.parametrize(
        "words",
        [
            ["status"], ["tasks", "list"], ["tasks", "show", 1], ["tasks", "cancel", 1], ["dlq", "list"], ["dlq", "replay", 1],
            ["queues", "list"], ["queues", "pause", "mail"], ["db", "check"], ["db", "migrate"],
        ],
    )  # fmt: skip
    def test_the_file_of_an_app_is_not_created_by_looking(self, world, words):
        result = world.run(*words, "--app", "jobs:app", code=2)

        assert result.stderr == (
            "Error: the file outlast.db does not exist\n  check the app, or create the file: outlast db init --app jobs:app\n"
        )
        assert list(world.folder.glob("outlast.db*")) == []

    def test_the_file_of_an_app_is_created_by_what_adds_to_it(self, world):
        world.run("db", "init", "--app", "jobs:app")
        assert (world.folder / "outlast.db").exists()
        (world.folder / "other.py").write_text("import outlast\napp = outlast.App('sqlite:///other.db')\n")
        world.run("worker", "other:app", "--drain")
        assert (world.folder / "other.db").exists()

    def test_what_is_no_database(self, world):
        (world.folder / "text.db").write_text("this is no database, and long enough to be read as one " * 10)

        assert "text.db is not a SQLite database" in world.run("status", "--url", "sqlite:///text.db", code=2).stderr

    def test_a_bad_scheme_or_file_is_told_in_two_lines(self, world):
        assert "scheme 'mysql' is not supported" in world.run("status", "--url", "mysql://u:hidden@h/d", code=2).stderr
        (world.folder / "outlast.toml").write_text('[app]\nlease = "long"\n')
        result = world.run("status", "--url", "sqlite:///x.db", code=2)
        assert result.stderr.splitlines() == [
            "Error: outlast.toml: app.lease: must be a whole number or a number, not text",
            "  correct the file; outlast init --path other.toml writes one with every setting explained",
        ]


class TestTheRoot:
    def test_help_needs_neither_rich_nor_the_app(self):
        code = (
            "import sys\nfrom outlast.cli import cli\n"
            "try: cli(['--help'])\nexcept SystemExit: pass\n"
            "print([name for name in ('rich', 'asyncio', 'sqlite3', 'outlast.app', 'outlast.config')"
            " if name in sys.modules])"
        )
        told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

        assert told.stdout.splitlines()[-1] == "[]"

    @pytest.mark.parametrize("name", _COMMANDS)
    def test_a_command_is_what_the_list_says(self, name, world):
        command = cli.get_command(None, name)
        text = world.run(name, "--help").stdout

        assert command.name == name
        assert command.help.partition("\n")[0].startswith(_COMMANDS[name][1].rstrip(".").partition(",")[0])
        assert "Example" in text

    def test_an_unknown_command(self, world):
        assert world.run("wroker", code=2).stderr == (
            "Error: No such command 'wroker'\n  did you mean outlast worker?\n"
        )
        assert world.run("abracadabra", code=2).stderr.endswith("\n  see outlast --help\n")

    def test_ctrl_c_is_clean(self, world, monkeypatch):
        def interrupted(*_, **__):
            raise KeyboardInterrupt

        monkeypatch.setattr("outlast.cli.app_options.resolve_app", interrupted)
        result = world.run("status", code=130)

        assert result.output.strip() == ""
