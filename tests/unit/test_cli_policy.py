"""What a policy does, as the command line draws it."""

import pytest

import outlast
from cli_world import in_one_line, make_world  # noqa: F401  # a fixture
from outlast.errors import NetworkError, RateLimitError
from outlast.testing import fake_clock

FILE = """
[policies.patient]
max_attempts = 8
base_delay = 2.0
max_delay = 300.0
backoff = "linear"

[policies.worker]
max_attempts = 2
"""


def test_a_preset_is_drawn_as_its_preview(world):
    text = world.run("policy", "preview", "worker").stdout

    assert text.startswith(f"worker, from Outlast; retries temporary failures\n{outlast.preset('worker').preview()}\n")
    assert "\nafter rate_limit, without a Retry-After\n5 attempts\n  1 → 2  ██░░░░░ 1 to 3 s\n" in text


def test_without_a_name_it_is_what_a_bare_retry_does(world):
    text = world.run("policy", "preview").stdout

    assert text.startswith("default, from Outlast; ")
    assert "5 attempts, 60 s in all\n  1 → 2  " in text
    assert "no second attempt" not in text, "a rate limit is retried too"


def test_the_waits_of_an_override_are_drawn_too(world):
    text = world.run("policy", "preview", "blog", "--deadline", 60).stdout

    assert "after rate_limit, without a Retry-After\n" in text
    assert "no second attempt: the first wait would be 60 s, but the deadline is 60 s" in text


def test_options_alone_change_what_a_bare_retry_does(world):
    words = [
        "--max-attempts",
        5,
        "--base-delay",
        "1s",
        "--max-delay",
        30,
        "--backoff",
        "exponential",
        "--jitter",
        "full",
    ]
    made = outlast.RetryPolicy(
        max_attempts=5, base_delay=1, max_delay=30, backoff="exponential", jitter="full", deadline=60
    )
    data = world.json("policy", "preview", *words, "--deadline", "1m")

    assert [(wait["after"], wait["least"], wait["most"]) for wait in data["waits"]] == [
        (wait.after, wait.least, wait.most) for wait in made.preview().waits
    ]
    assert data["deadline"] == 60
    assert "; retries temporary failures\n" in world.run("policy", "preview", *words).stdout


def test_options_change_what_a_name_says(world):
    data = world.json("policy", "preview", "etl", "--max-attempts", 2, "--jitter", "0.5")

    assert data["from"] == "Outlast and the options"
    assert (data["max_attempts"], data["jitter"], data["base_delay"]) == (2, 0.5, 1.0)


def test_the_policy_of_a_task(world):
    text = world.run("policy", "preview", "flaky", "--app", "jobs:app").stdout

    assert text.startswith("task flaky, from jobs:app; retries temporary failures\n"), "as a worker does"
    assert "4 attempts\n" in text
    data = world.json("policy", "preview", "flaky", "--app", "jobs:app")
    assert (data["waits"][0]["least"], data["retried"]) == (60.0, "temporary failures")


def test_policies_of_the_file_go_before_ours(world):
    (world.folder / "outlast.toml").write_text(FILE)
    data = {each["name"]: each for each in world.json("policy", "list")}

    assert list(data) == ["patient", "worker", "default", "blog", "etl", "feed"]
    assert (data["worker"]["from"], data["worker"]["max_attempts"]) == ("outlast.toml", 2)
    assert (data["etl"]["from"], data["etl"]["max_attempts"]) == ("Outlast", 5)
    assert world.json("policy", "preview", "patient")["waits"][-1]["most"] == 14.0
    assert "linear 2-300s" in world.run("policy", "list").stdout


def test_the_list_says_where_more_come_from(world):
    *rows, last = world.run("policy", "list").stdout.splitlines()

    assert [row.split()[0] for row in rows] == ["POLICY", "default", "blog", "etl", "feed", "worker"]
    assert max(map(len, rows)) <= 80
    assert last == "add your own under [policies.NAME] in outlast.toml; outlast init writes that file"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["nosuch"],
            "policy 'nosuch' does not exist; choose one of default, blog, etl, feed, worker; for the policy of a task",
        ),
        (["nosuch", "--app", "jobs:app"], "the app has no task 'nosuch'; it has: flaky, mail, many, scrape, slow"),
        (["scrap", "--app", "jobs:app"], "the app has no task 'scrap'; did you mean scrape?"),
        (
            ["--app", "jobs:app"],
            "the name of a task is missing; jobs:app has the tasks flaky, mail, many, scrape, slow",
        ),
        (
            ["--jitter", "wild"],
            "'wild' is not a valid jitter; give none, full, equal, decorrelated, or a fraction such as 0.1",
        ),
        (["--jitter", "7"], "jitter is 7.0; "),
        (["--max-attempts", "0"], "0 is not in the range 1<=x<=10000; see outlast policy preview --help"),
        (
            ["--base-delay", "soon"],
            "'soon' is not a duration; give seconds, or a number with a unit, such as 90s, 15m, 2h, 3d or 1w",
        ),
    ],
)
def test_mistakes(world, words, said):
    result = world.run("policy", "preview", *words, code=2)

    assert said in in_one_line(result.stderr)
    assert result.stderr.count("\n") == 2


def test_the_waits_are_those_that_calls_make(world):
    """The preview of options is @retry with these settings; a rate limit waits a second longer."""
    data = world.json("policy", "preview", "--max-attempts", 3, "--jitter", "none")
    for error, name in ((NetworkError("x"), "waits"), (RateLimitError("x"), "rate_limit_waits")):
        with fake_clock() as clock, pytest.raises(type(error)):
            outlast.retry(max_attempts=3, jitter="none")(raises(error))()
        assert [wait["most"] for wait in data[name]] == clock.waits
    assert [wait["most"] for wait in data["rate_limit_waits"]] == [1.5, 2.0]


def raises(error):
    def call():
        raise error

    return call


def test_a_policy_that_does_not_retry_rate_limits_shows_no_waits_for_them(world):
    assert world.json("policy", "preview", "feed")["rate_limit_waits"] is None
