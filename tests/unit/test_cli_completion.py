"""Completion, asked for by a real bash: what is offered, what it costs, and that nothing is broken by a key."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cli_world import make_world  # noqa: F401  # a fixture

ASK = """
eval "$(outlast completion bash)"
while read -r -a COMP_WORDS; do
    COMP_WORDS=("${COMP_WORDS[@]/#.empty./}") COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 )) COMPREPLY=()
    _outlast_completion outlast
    printf '%s\\n' "${COMPREPLY[*]}"
done
"""
COMMANDS = ("worker", "monitor", "job", "dlq", "policy", "completion")


def ask(world, *lines, **more):
    """Return what bash would offer for each line; ``.empty.`` is a word that is not begun yet."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OUTLAST_")}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    done = subprocess.run(
        ["bash", "--norc", "-c", ASK], input="".join(f"{line}\n" for line in lines), capture_output=True, text=True,
        cwd=world.folder, env=environment | more, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return [line.split() for line in done.stdout.splitlines()]


pytestmark = pytest.mark.skipif(
    shutil.which("bash") is None or not (Path(sys.executable).parent / "outlast").exists(),
    reason="no bash, or no command",
)


def test_commands_options_and_values(world):
    commands, begun, states, categories, policies, options, reasons = ask(
        world,
        "outlast .empty.", "outlast po", "outlast tasks list --status .empty.", "outlast dlq list --category a",
        "outlast policy preview .empty.", "outlast policy preview --max", "outlast dlq groups --reason e",
    )  # fmt: skip

    assert set(COMMANDS) < set(commands)
    assert begun == ["policy"]
    assert states == ["queued", "running", "parked", "done", "failed", "cancelled", "discarded"]
    assert categories == ["api_temporary", "access_denied", "authentication"]
    assert policies == ["default", "blog", "etl", "feed", "worker"]
    assert options == ["--max-attempts", "--max-delay"]
    assert reasons == ["exhausted", "expired"]


def test_no_store_is_read_and_none_is_made(world):
    assert ask(world, "outlast queues pause .empty.", "outlast tasks list --queue m") == [[], []]
    assert list(world.folder.glob("*.db*")) == []


def test_a_key_breaks_nothing(world):
    (world.folder / "outlast.toml").write_text("[app\n")

    assert ask(world, "outlast queues pause .empty.", "outlast policy preview .empty.", "outlast job show .empty.") == [
        [], [], [],
    ]  # fmt: skip


def test_names_of_commands_are_completed_without_importing_them():
    code = (
        "import os, sys\n"
        "os.environ.update(_OUTLAST_COMPLETE='bash_complete', COMP_WORDS='outlast ', COMP_CWORD='1')\n"
        "from outlast.cli import cli\n"
        "try: cli(prog_name='outlast')\nexcept SystemExit: pass\n"
        "print([name for name in sys.modules if name.startswith('outlast.cli.')])"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.splitlines()

    assert told[-1] == "['outlast.cli.errors']"
    assert [line.partition(",")[2] for line in told[:3]] == ["init", "worker", "monitor"]


@pytest.mark.parametrize(("shell", "word"), [("zsh", "#compdef outlast"), ("fish", "complete --no-files --command")])
def test_other_shells(world, shell, word):
    assert word in world.run("completion", shell).stdout


def test_a_shell_that_is_not_known(world):
    result = world.run("completion", "csh", code=2)

    assert "'csh' is not one of 'bash', 'zsh', 'fish'" in result.stderr
    assert result.stderr.endswith("\n  see outlast completion --help\n")
