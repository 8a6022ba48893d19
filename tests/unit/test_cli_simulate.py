"""``outlast simulate``: scenarios from options and files, policies by name, file or module, comparisons, history."""

import pytest

from cli_world import in_one_line, make_world  # noqa: F401  # a fixture

SCENARIO = """
policy = "etl"
rate = "2/s"
duration = "2m"

[other_side]
latency = 0.05

[[other_side.phases]]
start = "30s"
length = "30s"
down = true
"""
SMALL = ("simulate", "--scenario", "outage.toml", "--runs", 2)


@pytest.fixture
def scene(world):
    (world.folder / "outage.toml").write_text(SCENARIO)
    (world.folder / "wrong.toml").write_text("rate = -1\n")
    (world.folder / "calls.toml").write_text('place = "call"\n[budget]\ncapacity = 5\nper_second = 1\n')
    (world.folder / "new.toml").write_text("[policies.patient]\nmax_attempts = 8\nbase_delay = 5\n")
    return world


def test_the_command_of_the_issue(scene):
    words = [
        "--policy",
        "worker",
        "--rate",
        "3/s",
        "--workers",
        8,
        "--down",
        "1m",
        "--errors",
        "30%",
        "--limit",
        "50/s",
    ]
    text = scene.run("simulate", *words, "--runs", 1).stdout

    assert text.startswith("worker: 1 run\n")
    assert "calls for each piece of work" in text
    assert "░ retries" in text


def test_a_file_names_its_policy_and_options_override_it(scene):
    assert scene.run(*SMALL).stdout.startswith("etl: 2 runs")
    data = scene.json(*SMALL, "--policy", "worker", "--rate", "4/s", "--for", "10s")
    assert data["policy"] == "worker"
    assert 20 <= data["figures"]["work"]["median"] <= 60


@pytest.mark.parametrize(
    ("policy", "name"),
    [("new.toml", "patient"), ("new.toml:patient", "patient"), ("jobs:flaky", "jobs:flaky"), ("default", "default")],
)
def test_policies(scene, policy, name):
    assert scene.json(*SMALL, "--policy", policy)["policy"] == name


def test_a_comparison(scene):
    text = scene.run(*SMALL, "--compare", "worker", "new.toml").stdout

    assert "CALLS/WORK" in text
    assert "\nworker " in text
    assert "\npatient " in text
    rows = scene.json(*SMALL, "--compare", "worker", "new.toml")["policies"]
    assert any(row["best"] for row in rows)


def test_policies_of_the_same_name_are_compared_under_the_names_that_were_given(scene):
    (scene.folder / "mine.toml").write_text("[policies.worker]\nmax_attempts = 9\n")
    rows = scene.json(*SMALL, "--compare", "worker", "mine.toml", "etl")["policies"]

    assert [row["policy"] for row in rows] == ["worker", "mine.toml", "etl"]


def test_the_duration_of_a_file_stays_with_an_outage(scene):
    (scene.folder / "long.toml").write_text('rate = "1/s"\nduration = "2h"\narrivals = "constant"\n')
    data = scene.json("simulate", "--scenario", "long.toml", "--down", "1m", "--runs", 1)

    assert data["figures"]["work"]["median"] == 7200


def test_a_sweep(scene):
    rows = scene.json(*SMALL, "--sweep", "max_attempts=2..4", "base_delay=0.5,10", "jitter=none,full", "--json")[
        "policies"
    ]

    assert len(rows) == 12
    assert rows[0]["policy"] == "max_attempts=2 base_delay=0.5 jitter=none"


def test_a_chart_is_written(scene):
    scene.run(*SMALL, "--svg", "chart.svg")

    assert (scene.folder / "chart.svg").read_text().startswith("<svg ")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--rate", "often"], "--rate is 'often'; give a number per second"),
        (["--down", "abc"], "--down is 'abc'; give seconds"),
        (["--workers", "0"], "--workers is '0'; give a whole number"),
        (["--errors", "200%"], "--errors is '200%'; give a share"),
        (["--policy", "hopeful"], "policy 'hopeful' does not exist; choose one of"),
        (["--policy", "new.toml:old"], "does not name a policy of the file; choose from: new.toml:patient"),
        (["worker"], "'worker' is not expected; add --compare or --sweep"),
        (["--compare", "worker"], "--compare has too few different policies: 1; give two or more"),
        (["--compare", "worker", "worker"], "--compare has too few different policies: 1; give two or more"),
        (["--compare", "worker", "etl", "--svg", "x.svg"], "--svg draws one simulation"),
        (["--history", "2026-11-10..2026-11-11", "--down", "1m"], "of the other options, give only --policy"),
        (["--history", "2026-11-10..2026-11-11", "--sweep", "max_attempts=1,2"], "give only --policy"),
        (["--sweep", "max_attempts=many"], "is not a setting with values; give SETTING=2..8"),
        (["--sweep"], "--sweep has no settings; give some"),
        (["--policy", "hopeful"], "a policy of your code is MODULE:NAME"),
        (["--scenario", "gone.toml"], "gone.toml: cannot be read"),
        (["--scenario", "wrong.toml"], "scenario wrong.toml: rate is -1; give a number per second"),
        (["--scenario", "outage.toml", "--rate", "often"], "Error: --rate is 'often'; give a number per second"),
        (["--scenario", "calls.toml", "--place", "task"], "Error: budget is for calls; workers do not use it"),
        (["--rate", "100000/s", "--for", "1h"], "has more than 2,000,000 pieces of work; lower the rate"),
        (["--app", "jobs:app"], "--app and --url are for --history; add --history FROM..TO"),
        (["--history", "yesterday"], "which is not a range of times; give FROM..TO"),
    ],
)
def test_mistakes_say_what_is_wrong_and_what_to_do(scene, words, said):
    done = scene.run("simulate", *words, code=2)

    assert said in in_one_line(done.stderr)
    assert "outlast init" not in done.stderr


def test_history_reads_and_changes_nothing(scene):
    for _ in range(3):
        scene.enqueue("flaky")
    scene.enqueue("mail", "to=ann")
    before = scene.run("status", "--app", "jobs:app").stdout
    words = ("simulate", "--history", "2020-01-01T00:00..2090-01-01T00:00", "--policy", "new.toml", "--app", "jobs:app")
    data = scene.json(*words)

    assert data["recorded"]["tasks"] == 0
    assert "never started" in " ".join(data["notes"])
    assert "4 tasks are left out" in scene.run(*words).stdout
    assert scene.run("status", "--app", "jobs:app").stdout == before
