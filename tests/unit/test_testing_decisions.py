"""What Outlast decided, to be counted and read."""

import pytest

import outlast
from outlast.errors import ConfigError, NetworkError, PermanentError
from outlast.testing import drain, failing, fake_clock, record_decisions, sample_error


@pytest.fixture
def decisions():
    with fake_clock(), record_decisions() as decisions:
        yield decisions


def fetch_with(*errors, **settings):
    def fetch():
        return "done"

    given = failing(fetch, errors)
    given.__qualname__ = "Client.fetch"
    return outlast.retry(given, **settings)


def test_retries_and_waits_are_counted_by_name_and_category(decisions):
    fetch_with(NetworkError("x"), sample_error("api_temporary"))()

    assert decisions.retries() == decisions.retries("fetch") == decisions.retries("Client.fetch") == 2
    assert decisions.retries("fetch", category="network") == 1
    assert decisions.retries("fetch", category=outlast.Category.DATA) == decisions.retries("etch") == 0
    assert decisions.waits("fetch") == [0.5, 1.0]
    assert decisions.waits("fetch", category="api_temporary") == [1.0]
    assert [each.category for each in decisions.failures("fetch")] == ["network", "api_temporary"]
    assert decisions.recoveries("fetch") == 1
    assert decisions.gave_up() == 0


def test_what_was_given_up_is_counted_by_reason(decisions):
    with pytest.raises(NetworkError):
        fetch_with(*[NetworkError("x")] * 2, max_attempts=2)()
    with pytest.raises(PermanentError):
        fetch_with(PermanentError("y"))()

    assert decisions.gave_up("fetch") == 2
    assert decisions.gave_up("fetch", category="network") == decisions.gave_up(reason="exhausted") == 1
    assert decisions.gave_up("fetch", reason="deadline") == 0
    assert len(decisions.failures("fetch")) == 3
    assert decisions.recoveries() == 0


def test_tasks_count_as_calls_do(decisions):
    app = outlast.App("memory://")
    errors = [NetworkError("x"), sample_error("rate_limit", retry_after=60), PermanentError("gone\nfor good")]

    @app.task(policy=outlast.RetryPolicy(retry_on=outlast.RETRYABLE, base_delay=5))
    def scrape() -> None:
        raise errors.pop(0)

    scrape.enqueue()
    drain(app)

    assert (decisions.retries("scrape"), decisions.deferrals("scrape"), decisions.gave_up("scrape")) == (1, 1, 1)
    assert decisions.waits("scrape")[1] == 60
    assert str(decisions).splitlines() == [
        f"scrape: attempt 1 failed, retrying in {decisions.waits()[0]:.3g} s (network: x)",
        "scrape: deferred for 60 s (rate_limit: HTTP Error 429: Too Many Requests)",
        "scrape: dead letter after attempt 2 (permanent) (unknown: gone …)",
    ]


def test_it_reads_as_what_happened(decisions):
    assert str(decisions) == "no decisions: no attempt failed"
    assert repr(decisions) == "Decisions(0)"
    fetch_with(NetworkError("x"))()
    assert str(decisions) == (
        "Client.fetch: attempt 1 failed, retrying in 0.5 s (network: x)\nClient.fetch: succeeded at attempt 2"
    )
    with pytest.raises(NetworkError):
        fetch_with(*[NetworkError("x")] * 5)()
    assert repr(decisions).startswith("Decisions(7: … Client.fetch: attempt 3 failed")
    assert repr(decisions).endswith("given up after 5 attempts (exhausted) (network: x))")


def test_other_events_are_shown_as_they_are(decisions):
    outlast.resource("mail-of-decisions", breaker=outlast.BreakerSettings(consecutive=1))
    with pytest.raises(NetworkError):
        fetch_with(NetworkError("x"), max_attempts=1, resource="mail-of-decisions")()
    assert "BreakerOpened(resource='mail-of-decisions'" in str(decisions)


def test_what_would_be_done_is_shown(decisions):
    with pytest.raises(NetworkError):
        outlast.retry(failing(lambda: 1, [NetworkError("x")]), mode="observe")()
    assert "would retry (network: x)" in str(decisions)
    assert decisions.retries() == 0


def test_a_category_that_is_none_is_refused(decisions):
    with pytest.raises(ConfigError, match="'networc' is not a category"):
        decisions.retries(category="networc")


def test_nothing_is_heard_after_the_block():
    with record_decisions() as decisions:
        pass
    with fake_clock():
        fetch_with(NetworkError("x"))()
    assert decisions.events == []
