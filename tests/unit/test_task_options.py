"""What `@app.task`, `task.options` and `app.limit` accept, and what they refuse."""

import dataclasses
import logging
from datetime import UTC, datetime, timedelta

import pytest

import outlast
from outlast.decide.limits import ResourceLimits, check_limit
from outlast.errors import ConfigError, ConfigurationError, NetworkError, PayloadError


@pytest.fixture
def app():
    made = outlast.App("memory://", policy=outlast.preset("worker").replace(base_delay=0))
    yield made
    made.close()


@pytest.fixture
def scrape(app):
    @app.task
    def scrape(url: str, depth: int = 1):
        pass

    return scrape


def test_settings_change_the_policy_of_the_app(app):
    @app.task(
        max_attempts=8, base_delay=timedelta(seconds=2), retry_on=NetworkError, overrides={"network": {"jitter": 0}}
    )
    def task():
        pass

    wanted = {"max_attempts": 8, "base_delay": 2, "retry_on": NetworkError}
    assert {name: getattr(task.policy, name) for name in wanted} == wanted
    assert task.policy.max_delay == app.policy.max_delay
    assert task.policy.overrides["network"].jitter == 0
    assert app.policy.max_attempts != 8


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"policy": outlast.RetryPolicy(), "max_attempts": 2}, "give a policy or its settings, not both"),
        ({"max_attempts": 0}, "max_attempts is 0"),
        ({"base_delay": -1}, "base_delay is -1"),
        ({"deadline": 5}, "'deadline' is not a setting of a task"),
        ({"attempt_timeout": 5}, "'attempt_timeout' is not a setting of a task"),
        ({"resource": lambda link: link}, "the resource function has the parameter 'link'.*of the task: url, depth"),
        ({"resource": lambda *everything: "x"}, r"has the parameter '\*everything'"),
        ({"resource": len}, "has the parameter"),
    ],
)
def test_settings_that_cannot_be_used(app, settings, said):
    with pytest.raises(ConfigError, match=said):

        @app.task(**settings)
        def task(url: str, depth: int = 1):
            pass


def test_the_function_gets_the_arguments_of_its_parameters(app):
    seen = []

    @app.task(resource=lambda depth, url: seen.append((url, depth)))
    def task(url: str, *rest: str, depth: int = 1, **more: int):
        pass

    task.enqueue("a")
    task.enqueue("b", "c", depth=2, other=3)
    task.enqueue(url="d", depth=4)
    task.enqueue_many([{"url": "e"}, {"url": "f", "depth": 5}])
    assert seen == [("a", 1), ("b", 2), ("d", 4), ("e", 1), ("f", 5)]
    assert {app.tasks.show(n).task.resource for n in range(1, 6)} == {None}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"retries": 3}, "'retries' is not an option of a call; choose from: backoff, base_delay, connection"),
        ({"max_attempts": 0}, "max_attempts is 0"),
        ({"timeout": -1}, "timeout is -1"),
        ({"max_delay": "long"}, "max_delay is 'long'"),
        ({"backoff": lambda n: n}, "backoff is a function, which cannot be stored"),
        ({"backoff": "cubic"}, "'cubic' is not a backoff"),
        ({"jitter": 7}, "7"),
        ({"resource": ""}, "resource is ''"),
        ({"resource": None}, "resource is None"),
        ({"priority": 10}, "priority is 10"),
        ({"delay": 1, "run_at": datetime.now(UTC)}, "not both"),
    ],
)
def test_options_that_cannot_be_used_fail_at_once(scrape, options, said):
    with pytest.raises(ConfigError, match=said):
        scrape.options(**options)


def test_a_timeout_needs_a_function_that_another_process_can_import(scrape):
    with pytest.raises(ConfigurationError, match="move it to the module"):
        scrape.options(timeout=5)


def test_options_do_not_change_and_can_be_used_again(app, scrape):
    patient = scrape.options(max_attempts=9, queue="slow", priority=7, delay=60, jitter=True)
    with pytest.raises(dataclasses.FrozenInstanceError):
        patient.row = None
    numbers = [patient.enqueue("a").id, patient.enqueue(url="b", depth=2).id, scrape.enqueue("c").id]
    tasks = [app.tasks.show(number).task for number in numbers]
    assert [each.options for each in tasks] == ['{"max_attempts":9,"jitter":0.1}'] * 2 + [None]
    assert [(each.queue, each.priority) for each in tasks] == [("slow", 7)] * 2 + [("default", 5)]
    assert tasks[0].next_run_after > tasks[0].created_at + timedelta(seconds=59)


def test_arguments_and_options_are_apart(scrape):
    with pytest.raises(PayloadError, match="delay"):
        scrape.options(max_attempts=2).enqueue("a", delay=3)
    assert scrape.options(unique_key="k").enqueue("a").created
    assert not scrape.options().enqueue_many([{"url": "a", "unique_key": "k"}])[0].created


def test_a_setting_among_the_arguments_is_explained(scrape):
    with pytest.raises(PayloadError, match=r"max_attempts is a setting.*scrape\.options\(max_attempts=…\)\.enqueue"):
        scrape.enqueue("a", max_attempts=3)
    with pytest.raises(PayloadError, match="max_attempts is a setting"):
        scrape.enqueue_many([{"url": "a", "max_attempts": 3, "delay": 1}])


@pytest.mark.parametrize("options", [{}, {"delay": 5}, {"unique_key": "k"}])
def test_wrong_arguments_are_a_payload_error_whatever_computes_the_resource(app, options):
    @app.task(resource=lambda url: url)
    def fetch(url: str):
        pass

    with pytest.raises(PayloadError):
        fetch.enqueue_many([{"nope": 1}, {"nope": 2}], **options)


def test_a_pattern_with_many_stars_takes_no_time():
    assert limits("*a" * 16 + "*").find("b" * 10 + "a" * 15 + "c" * 20) is None


def test_a_task_may_have_parameters_named_like_settings(app):
    @app.task
    def tune(max_attempts: int, timeout: float, resource: str):
        pass

    number = tune.options(max_attempts=2).enqueue(max_attempts=5, timeout=1.0, resource="r").id
    task = app.tasks.show(number).task
    assert (task.parameters, task.options) == ('{"max_attempts":5,"timeout":1.0,"resource":"r"}', '{"max_attempts":2}')


def limits(*names):
    made = ResourceLimits()
    for number, name in enumerate(names, start=1):
        made[name] = check_limit(name, rate=number)
    return made


@pytest.mark.parametrize(
    ("resource", "rate"),
    [
        ("api.example.com", 1),
        ("shop.example.com", 3),
        ("a.b.example.com", 3),
        ("example.com", 2),
        ("example.com.evil", 2),
        ("host:", 4),
        ("host:example.com", 4),
        ("a*c", 5),
        ("a[b]c.d", 6),
        ("aXbXc.d", 2),
        ("line\nbreak", 2),
    ],
)
def test_the_most_specific_limit_wins(resource, rate):
    found = limits("api.example.com", "*", "*.example.com", "host:*", "a*c", "a[b]c.*").find(resource)
    assert (found.resource, found.rate) == (resource, rate)


def test_of_equally_long_patterns_the_first_wins():
    assert limits("a*", "*b").find("ab").rate == 1
    assert limits("*b", "a*").find("ab").rate == 1


def test_without_a_match_there_is_no_limit():
    known = limits("*.example.com", "host:*")
    assert known.find("example.com") is None
    assert known.find("Host:a") is None
    assert known.find(None) is None


def test_a_limit_that_is_added_later_counts():
    known = limits("*.com")
    assert known.find("a.com").rate == 1
    known["a.com"] = check_limit("a.com", rate=9)
    assert known.find("a.com").rate == 9
    assert known.find("b.com").rate == 1


def test_what_is_remembered_of_limits_is_bounded():
    known = limits("*.com")
    for n in range(50_000):
        assert known.find(f"h{n}.com").resource == f"h{n}.com"
    assert len(known._found) <= 20_001


@pytest.mark.parametrize(("computed", "warned"), [(False, True), (True, False)])
def test_only_a_limit_that_cannot_be_used_is_warned_about(app, caplog, computed, warned):
    app.task(resource=(lambda url: url) if computed else "a.com", name="scrape")(lambda url: None)
    app.limit("a.com", rate=1)
    app.limit("*.org", rate=1)
    app.limit("mispelt.com", rate=1)
    with caplog.at_level(logging.WARNING):
        app.worker().drain()
    assert ("the limit of mispelt.com: no task" in caplog.text) is warned
    assert "limit of a.com" not in caplog.text
    assert "*.org" not in caplog.text


def test_ten_thousand_resources_without_a_breaker_take_no_memory(app):
    from outlast.run import resources

    app.task(resource=lambda n: f"host-without-breaker-{n}", name="call")(lambda n: None).enqueue_many(
        [{"n": n} for n in range(100)]
    )
    assert app.worker().drain() == 100
    assert not [name for name in resources._resources if name.startswith("host-without-breaker")]
