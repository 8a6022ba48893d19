"""The command line with any words: it ends with 0, 1 or 2, and never with a traceback or a secret."""

import logging
import sys

import click
import pytest
from click.testing import CliRunner
from hypothesis import strategies as st

from cli_world import World
from fuzz.fuzzing import SECRET, fuzz, json_texts, odd_texts
from outlast.classify import default_classifier, use_classifier
from outlast.cli import cli

ENDLESS = {"--watch", "--wait"}  # they wait for somebody else
SERVING = {"monitor", "web"}  # they go on until they are stopped, so they get no app that is there
FILES = [
    "jobs.py",
    "outlast.toml",
    "written.toml",
    ".",
    "nothing",
    "nothing/at/all",
    "",
    "-",
    "x" * 300,
    "feeds.opml",
    "urls.txt",
]
APPS = [
    "jobs:app",
    "jobs",
    "jobs:not_an_app",
    "jobs:Shop.app",
    "nowhere:app",
    ":",
    "jobs:",
    "jobs:app:app",
    "jobs:app.x.y",
    "../jobs:app",
    "os:path",
    "jobs:app()",
    "/",
    "/:app",
    "..:app",
    ".:app",
]
URLS = [
    "sqlite:///outlast.db", "sqlite:///other.db", "memory://", "sqlite:////nothing/at/all.db", "sqlite://", "sqlite:///", "sqlite:///.", "sqlite:///jobs.py", "mysql://x",
    f"postgresql://u:{SECRET}@127.0.0.1:1/x?connect_timeout=1", f"postgresql://u:{SECRET}@[", f"postgresql://u:{SECRET}@h:x/y", "postgresql:",
]  # fmt: skip
WORDS = ["1", "2", "3", "0", "99", "default", "mail", "scrape", "url=x", "depth=9", "token=" + SECRET, "https://example.com/feed", "429", "ConnectionError: refused", "api_temporary", "permanent", "10s", "1d", "5/s", "0.5/m", "now", "2026-01-01", "full", "feed", "bash"]  # fmt: skip


def commands(group=cli, path=()):
    """All commands that do something, by what is typed."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


COMMANDS = dict(commands())
words = st.sampled_from(WORDS) | odd_texts


def value_of(parameter, path):
    """What may stand behind an option, or for an argument."""
    kind = parameter.type
    if isinstance(kind, click.Path | click.File) or parameter.name in {"file", "path", "config"}:
        return st.sampled_from(FILES)
    if isinstance(kind, click.Choice):
        return st.sampled_from([*map(str, kind.choices), "x"])
    if parameter.name == "reference":
        return st.sampled_from(["nowhere:app", "jobs:not_an_app", ":", "/", "x" * 300] if path[0] in SERVING else APPS)
    if parameter.name in {"app", "url"}:
        return st.sampled_from(APPS if parameter.name == "app" else URLS)
    return words | json_texts.filter(lambda text: len(text) < 5000) if parameter.name in {"args", "patch"} else words


@st.composite
def lines(draw, path):
    """Return the words behind a command."""
    command, typed = COMMANDS[path], []
    for parameter in command.params:
        if isinstance(parameter, click.Argument):
            count = draw(st.integers(0, 3)) if parameter.nargs == -1 else draw(st.sampled_from([1, 1, 1, 0, 2]))
            typed += [draw(value_of(parameter, path)) for _ in range(max(count, path[0] in SERVING))]
            continue
        if parameter.opts[-1] in ENDLESS or (path[0] == "web" and parameter.name == "url") or draw(st.integers(0, 2)):
            continue
        typed.append(parameter.opts[-1])
        if not parameter.is_flag:
            typed.append(draw(value_of(parameter, path)))
    if path[0] == "worker":
        typed.append("--drain")
    if draw(st.integers(0, 9)) == 0:
        typed.insert(draw(st.integers(0, len(typed))), draw(odd_texts))
    return typed


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("commands")
    before, root = default_classifier(), logging.getLogger()
    handlers, level = root.handlers[:], root.level
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(sys, "path", [str(folder), *sys.path])
        for variable in ("OUTLAST_URL", "OUTLAST_CONFIG", "OUTLAST_NOTIFY", "COLUMNS"):
            patch.delenv(variable, raising=False)
        patch.setattr(click, "launch", lambda *_args, **_kwargs: 0)
        patch.setattr("click.edit", lambda *_args, **_kwargs: None)
        sys.modules.pop("jobs", None)
        world = World(folder)
        (folder / "feeds.opml").write_text('<opml><body><outline xmlUrl="https://example.com/f"/></body></opml>')
        (folder / "urls.txt").write_text("https://example.com/a name\n#\n\0\n")
        world.dead_letters(3, f"token={SECRET}")
        world.enqueue("flaky", "--delay", "1h")
        yield world
        sys.modules.pop("jobs").app.close()
    use_classifier(before)
    root.handlers[:] = handlers
    root.setLevel(level)


def run(words, text=None):
    """Run a command line; see that it ends as it may."""
    words = [word.replace("\0", "").encode("utf-8", "replace").decode() for word in words]  # as a process is given them
    result = CliRunner().invoke(cli, words, input=text)
    use_classifier(CLASSIFIER)  # a settings file that was just written is used from then on
    assert result.exit_code in {0, 1, 2}, (words, result.output, result.exception)
    assert result.exception is None or isinstance(result.exception, SystemExit), (words, result.exception)
    shown = result.output if any(SECRET in word for word in words) else result.output.replace(f"token={SECRET}", "")
    assert SECRET not in shown or any(SECRET in word and "://" not in word for word in words), (words, result.output)
    return result


CLASSIFIER = default_classifier()


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_a_command_with_any_words(world, path):
    @fuzz(25, lines(path), st.none() | st.sampled_from(["y\n", "n\n", "\n", "{}", "\0"]))
    def check(line, text):
        run([*path, *line], text)

    check()


@fuzz(
    150,
    st.lists(
        st.sampled_from(
            [
                *{word for path in COMMANDS for word in path} - SERVING - {"worker"},
                "--help",
                "-h",
                "--version",
                "--json",
            ]
        )
        | odd_texts,
        max_size=5,
    ),
)
def test_any_words_at_all(world, line):
    run(line)


def test_what_is_there_afterwards_still_fits(world):
    """All of that has left books that can be read."""
    result = run(["doctor", "--json", "--app", "jobs:app"])
    assert '"check": "ledger"' in result.output or '"check":"ledger"' in result.output
