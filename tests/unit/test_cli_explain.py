"""``outlast explain`` as people use it."""

import json
import subprocess
import sys

import pytest
from click.testing import CliRunner

import outlast
from outlast.cli import cli


@pytest.fixture(autouse=True)
def _default_classifier(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OUTLAST_CONFIG", raising=False)
    before = outlast.default_classifier()
    yield
    outlast.use_classifier(before)


def run(*args, **kwargs):
    return CliRunner().invoke(cli, ["explain", *args], **kwargs)


def judged(*args, **kwargs):
    result = run("--json", *args, **kwargs)
    assert result.exit_code == 0, result.output
    return json.loads(result.output)


@pytest.mark.parametrize(
    ("words", "category", "strength"),
    [
        (["503"], "api_temporary", "strong"),
        (["403"], "access_denied", "strong"),
        (["403", "--credentials"], "authentication", "strong"),
        (["40P01"], "database_busy", "strong"),
        (["23505"], "integrity", "strong"),
        (["ECONNRESET"], "network", "strong"),
        (["SlowDown"], "rate_limit", "strong"),
        (["httpx.ReadTimeout"], "network", "strong"),
        (["requests.exceptions.InvalidURL"], "configuration", "strong"),
        (["ConnectionResetError"], "network", "strong"),
        (["FileNotFoundError"], "not_found", "strong"),
        (["vendor.sdk.RateLimitExceeded"], "rate_limit", "weak"),
        (["vendor.sdk.Mystery"], "unknown", "text"),
        (["database", "is", "locked"], "database_busy", "text"),
        (["404 Not Found: timeout parameter missing"], "not_found", "text"),
        (["接続がタイムアウトしました"], "network", "text"),
    ],
)
def test_words(words, category, strength):
    data = judged(*words)

    assert (data["category"], data["strength"]) == (category, strength)


def test_headers():
    data = judged("429", "-H", "Retry-After: 120")

    assert (data["category"], data["retry_after"]) == ("rate_limit", 120)


def test_says_how_sure_it_is_and_which_lines_would_change_it():
    result = run("vendor.errors.Busy")

    assert result.exit_code == 0
    assert 'type = "vendor.errors.Busy"\ncategory = "api_temporary"' in result.output
    assert "nothing matched" in result.output
    assert "[text only]" in run("database is locked").output


@pytest.mark.parametrize("words", ["200", "password=hunter2 timeout", "KeyboardInterrupt"])
def test_no_rule_is_proposed_that_could_not_work(words):
    assert judged(words)["rule_to_change_it"].startswith("# nothing distinguishes it from other errors")


def test_a_rule_for_a_status_leaves_other_statuses_alone():
    traceback = (
        "Traceback (most recent call last):\nhttpx.HTTPStatusError: Server error '503 Service Unavailable' for url 'x'"
    )
    rule = judged(input=traceback)["rule_to_change_it"]

    assert "status = 503\n" in rule
    assert 'type = "httpx.HTTPStatusError"' in rule


def test_the_lines_it_proposes_do_change_the_verdict(tmp_path):
    for words in (
        "vendor.errors.Busy",
        "503",
        "SlowDown",
        "40P01",
        "httpx.ReadTimeout",
        'it said "no" to \\ me',
        "ECONNRESET",
    ):
        before = judged(words)
        (tmp_path / "outlast.toml").write_text(before["rule_to_change_it"], "utf-8")
        after = judged(words)
        assert after["category"] != before["category"], words
        (tmp_path / "outlast.toml").unlink()


TRACEBACK = """
2026-01-01 something in the log
Traceback (most recent call last):
  File "job.py", line 3, in fetch
    raise ConnectionRefusedError(111, "Connection refused")
ConnectionRefusedError: [Errno 111] Connection refused

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "job.py", line 7, in <module>
    run()
vendor.sdk.SyncFailed: the sync failed
on two lines
"""


def test_a_traceback_with_its_cause():
    data = judged(input=TRACEBACK)

    assert (data["category"], data["code"]) == ("network", "ECONNREFUSED")
    assert data["exception_name"] == "SyncFailed"
    assert data["message"] == "the sync failed"


def test_a_real_traceback_through_a_pipe():
    code = "import json\ntry:\n    {}['x']\nexcept KeyError:\n    json.loads('{')"
    crashed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    asked = subprocess.run(
        [sys.executable, "-m", "outlast", "explain", "--json"],
        input=crashed.stderr,
        capture_output=True,
        text=True,
        check=True,
    )

    assert json.loads(asked.stdout)["category"] == "data"


def test_the_traceback_of_a_group():
    code = "raise ExceptionGroup('several', [TimeoutError('slow'), FileNotFoundError(2, 'No such file or directory')])"
    crashed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert judged(input=crashed.stderr)["category"] == "not_found"


def test_a_log_without_tracebacks():
    log = "10:00 INFO ok\n10:01 ERROR requests.exceptions.ConnectionError: refused\n10:02 INFO 503 items stored, timeout=30\n"
    data = judged(input=log)

    assert (data["category"], data["exception_name"]) == ("network", "ConnectionError")


def test_a_pasted_last_line():
    assert judged("TimeoutError: 404 not found")["rule"] == "builtins.TimeoutError"
    assert judged("nofile.txt")["exception_name"] == "Exception"


def test_a_traceback_never_makes_it_import_a_strangers_module(tmp_path, monkeypatch):
    (tmp_path / "stranger.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(str(tmp_path))

    assert judged(input="Traceback (most recent call last):\nstranger.Error: x")["category"] == "unknown"
    assert "stranger" not in sys.modules


def test_no_file_of_the_current_folder_is_run(tmp_path):
    (tmp_path / "stripe.py").write_text("open('ran', 'w').close()")
    text = "Traceback (most recent call last):\nstripe.error.CardError: x"
    for words, given in ((["-"], text), (["antigravity.Foo"], ""), (["this.Foo"], ""), (["unittest.__main__.Foo"], "")):
        command = [sys.executable, "-m", "outlast", "explain", "--json", *words]
        done = subprocess.run(command, input=given, capture_output=True, text=True, cwd=tmp_path, check=True)
        assert "rule" in json.loads(done.stdout)  # and nothing else was printed

    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "words", ["ExceptionGroup", "urllib.error.HTTPError: [Errno 5] boo", f"OSError: [Errno {'9' * 5000}] x"]
)
def test_odd_classes_do_not_break_it(words):
    assert judged(words)["category"]


def test_the_last_error_of_a_long_log_counts():
    log = "Traceback (most recent call last):\nKeyError: 'x'\n" + "all is well\n" * 100_000
    log += "Traceback (most recent call last):\nTimeoutError: slow\nINFO connection refused, set to 30\n"

    assert judged(input=log)["exception_name"] == "TimeoutError"
    assert judged(input=log)["message"] == "slow"


def test_options_that_would_be_ignored_are_refused():
    result = run("database is locked", "--credentials")

    assert result.exit_code == 2
    assert "need an HTTP status" in result.output


def test_plain_text_on_standard_input():
    assert judged("-", input="deadlock detected\n")["category"] == "database_busy"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["503", "-H", "nonsense"], "'nonsense' is not a header\n  write it as 'Retry-After: 120'"),
        (["503", "--config", "missing.toml"], "missing.toml: cannot be read: No such file"),
        ([], "standard input is empty"),
    ],
)
def test_mistakes_are_told(args, message):
    result = run(*args, input="")

    assert result.exit_code != 0
    assert message in result.output


def test_help_teaches():
    assert "outlast explain 429 -H 'Retry-After: 120'" in run("--help").output


def test_without_its_packages_it_says_what_to_install():
    code = "import sys; sys.modules['click'] = None; sys.argv = ['outlast']; import outlast.__main__ as m; m.main()"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert result.returncode == 1
    assert "pip install 'outlast[cli]'" in result.stderr


OWN = """
import outlast

app = outlast.App("sqlite:///outlast.db")


class Grumpy(Exception):
    pass


@app.task
def fetch(n: int):
    raise Grumpy(f"no coffee for {n}, password=hunter2hunter2")


@app.task
def parse(n: int):
    raise RuntimeError(f"cannot chew number {n} at all")
"""


@pytest.fixture
def failed(tmp_path, monkeypatch):
    """A file with failures that nobody knows."""
    (tmp_path / "grumpy_jobs.py").write_text(OWN)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delenv("OUTLAST_URL", raising=False)
    import grumpy_jobs

    app = grumpy_jobs.app
    app.create_schema()
    for n in range(3):
        grumpy_jobs.fetch.enqueue(n=n)
    grumpy_jobs.parse.enqueue(n=1)
    app.worker(concurrency=1).drain()
    app.close()
    yield tmp_path
    del sys.modules["grumpy_jobs"]


def test_rules_for_what_is_unknown(failed):
    result = run("--unknown")

    assert result.exit_code == 0, result.output
    assert "hunter2" not in result.output
    assert result.output.splitlines()[2:10] == [
        "# Grumpy in fetch: no coffee for 2, password=***",
        "# Nothing about it was known. Now unknown. Matches 3 failures in 1 group, 3 dead letters.",
        "[[classify.rules]]",
        'name = "Grumpy in fetch"',
        'type = "grumpy_jobs.Grumpy"',
        '# text = "no coffee for"  # narrower: only with this text',
        'category = "data"  # a guess: nothing in it helps; like an unknown failure, it is not retried',
        '# category = "api_temporary"  # if a retry helps',
    ]
    assert 'text = "cannot chew number"' in result.output
    assert not (failed / "outlast.toml").exists(), "nothing is written"


def test_what_is_printed_can_be_put_into_the_file_as_it_is(failed):
    first, *lines = run("--unknown").output.splitlines()
    assert first.endswith("put the right ones into outlast.toml:")
    (failed / "outlast.toml").write_text("\n".join(lines))

    assert len(outlast.load_config(failed / "outlast.toml").rules) == 2
    assert run("--unknown").output.startswith("every failure is classified")
    assert json.loads(run("--unknown", "--json").output) == []


def test_rules_as_json(failed):
    found = json.loads(run("--unknown", "--json", "--app", "grumpy_jobs:app").output)

    assert [(each["title"], each["failures"], each["category"]) for each in found] == [
        ("Grumpy in fetch", 3, "unknown"), ("RuntimeError in parse", 1, "unknown"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--unknown", "429"], "--unknown can only be combined with"),
        (["--unknown", "--config", "x.toml"], "--unknown can only be combined with"),
        (["429", "--url", "sqlite:///x.db"], "--app and --url need --unknown"),
        (["--unknown"], "no store is configured"),
    ],
)
def test_options_that_do_not_go_together(args, said, monkeypatch):
    monkeypatch.delenv("OUTLAST_URL", raising=False)
    result = run(*args)

    assert result.exit_code == 2
    assert said in result.stderr
