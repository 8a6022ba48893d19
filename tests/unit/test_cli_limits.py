"""outlast limits: what resources take, and how it stands."""

from cli_world import make_world  # noqa: F401  # a fixture
from outlast.decide.limits import Candidate
from outlast.ports.store import LimitRequest


def test_none(world):
    world.app().create_schema()
    assert world.json("limits") == []
    assert "no worker used a limit" in world.run("limits").stdout


def test_how_they_stand(world):
    app = world.app()
    limit = app.limit("api.example.com", rate="6/m", burst=2, concurrency=5)
    assert app.store.admit([LimitRequest(limit, tuple(Candidate(number, 1) for number in range(4)))])
    app.store.reserve_retries(app.limit("mail", retries="2/s", retry_burst=1), 50)
    first, second = world.json("limits")
    assert (first["resource"], first["rate"], first["burst"], first["concurrency"]) == ("api.example.com", 0.1, 2, 5)
    assert first["running"] == 0, "there are no such tasks"
    assert first["next_start"].endswith("+00:00")
    assert (second["resource"], second["running"], second["next_start"]) == ("mail", None, None)
    text = world.run("limits").stdout
    for words in ("6/m, burst 2", "0 of 5", "2/s", "api.example.com", "now"):
        assert words in text
    assert all(len(line) <= 80 for line in text.splitlines())


def test_secrets_are_masked(world):
    app = world.app()
    secret = "sk-live-0123456789abcdefghij"
    app.store.admit([LimitRequest(app.limit(secret, rate=1), (Candidate(1, 1),))])
    assert secret not in world.run("limits").stdout + world.run("limits", "--json").stdout
