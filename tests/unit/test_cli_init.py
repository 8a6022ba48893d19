"""outlast init, and the table [app] that it writes."""

import re

import pytest

import outlast
from cli_world import make_world  # noqa: F401  # a fixture
from outlast.cli.init import TEMPLATE
from outlast.config import _APP_KEYS, load_config
from outlast.errors import ConfigError


def test_the_file_loads_and_is_used(world):
    assert "wrote outlast.toml" in world.run("init").stdout
    config = load_config("outlast.toml")

    assert dict(config.app) == {"url": "sqlite:///outlast.db"}
    assert (config.rules, dict(config.policies), config.redact_patterns) == ((), {}, ())  # it changes no decision
    world.run("db", "init")
    assert (world.folder / "outlast.db").exists()


def test_what_is_commented_out_loads_too(tmp_path):
    file = tmp_path / "all.toml"
    lines = [re.sub(r"^# (?=\[|\w+ = )", "", line) for line in TEMPLATE.read_text("utf-8").splitlines()]
    file.write_text("\n".join(lines), "utf-8")
    config = load_config(file)

    assert config.app.keys() == _APP_KEYS.keys()
    assert config.redact_patterns == (r"customer \d+",)
    assert len(config.rules) == 1
    assert config.policies["patient"].max_attempts == 8
    app = outlast.App(**{**config.for_app, "url": "memory://"})
    assert app.settings.lease == outlast.App("memory://").settings.lease
    assert app.settings[1:5] == outlast.App("memory://").settings[1:5]  # what is commented out shows the default


def test_it_overwrites_only_when_told(world):
    (world.folder / "outlast.toml").write_text("# mine\n")
    assert "already exists\n  --force overwrites it" in world.run("init", code=2).stderr
    assert (world.folder / "outlast.toml").read_text() == "# mine\n"
    world.run("init", "--force")
    assert (world.folder / "outlast.toml").read_text("utf-8") == TEMPLATE.read_text("utf-8")


def test_another_path(world):
    world.run("init", "--path", "other.toml")
    assert (world.folder / "other.toml").exists()
    assert "cannot be written" in world.run("init", "--path", "no/such/folder.toml", code=2).stderr


def test_the_app_table(tmp_path):
    file = tmp_path / "outlast.toml"
    file.write_text(
        '[app]\nurl = "postgresql://h/d"\nlease = 30\nheartbeat = 2.5\nqueues = ["a", "b"]\nconcurrency = 4\n'
    )
    config = load_config(file)

    assert config.app == {
        "url": "postgresql://h/d", "lease": 30, "heartbeat": 2.5, "queues": ("a", "b"), "concurrency": 4,
    }  # fmt: skip
    assert config.for_app == {"url": "postgresql://h/d", "lease": 30, "heartbeat": 2.5}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[app]\nlesae = 3", "app.lesae: unknown key; choose from: url, lease"),
        ("app = 3", "app: must be a table, not a whole number"),
        ("[app]\nurl = 3", "app.url: must be text, not a whole number"),
        ('[app]\nurl = "mysql://u:hidden@h"', "app.url: must be sqlite:///file.db"),
        ("[app]\nlease = true", "app.lease: must be a whole number or a number, not true or false"),
        ("[app]\nlease = 0", "app.lease: is 0; give a number of seconds, 0.1 or more"),
        ("[app]\nlease = nan", "app.lease: is nan"),
        ("[app]\nlease = inf", "app.lease: is inf"),
        (
            "[app]\nlease = 10\nheartbeat = 6",
            "app.heartbeat: is 6 s; a lease of 10 s must be at least two heartbeats long",
        ),
        ("[app]\nheartbeat = 0", "app.heartbeat: is 0; give a number of seconds, 0.01 or more"),
        ("[app]\ncrash_limit = 1.5", "app.crash_limit: must be a whole number, not a number"),
        ("[app]\ncrash_limit = 0", "app.crash_limit: is 0; give a whole number, 1 or more"),
        ("[app]\nconcurrency = 0", "app.concurrency: is 0; give a whole number, 1 or more"),
        ("[app]\ngrace = -1", "app.grace: is -1; give a number of seconds, 0 or more"),
        ('[app]\nqueues = "mail"', "app.queues: must be a list, not text"),
        ("[app]\nqueues = []", "app.queues: is empty"),
        ('[app]\nqueues = ["a", 3]', "app.queues[1]: must be text"),
        ('[app]\nnotify = "https://hidden"', "app.notify: must be a list, not text"),
        ('[app]\nnotify = ["https://hidden", 3]', "app.notify[1]: must be the URL of a Slack webhook"),
        ('[app]\nnotify = [["hidden"]]', "app.notify[0]: must be the URL"),
        ('[app]\nnotify = [" "]', "app.notify[0]: must be the URL"),
    ],
)
def test_mistakes_in_the_app_table(tmp_path, text, said):
    file = tmp_path / "outlast.toml"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_config(file)

    assert str(caught.value).startswith(f"{file}: {said}")
    assert "hidden" not in str(caught.value)
