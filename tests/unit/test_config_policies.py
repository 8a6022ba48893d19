"""Policies from outlast.toml: the same settings by name, and the place of every mistake."""

import pytest

import outlast
from outlast import Category, RetryPolicy
from outlast.errors import ConfigError

GOOD = """
[policies.shop]
max_attempts = 6
retry_on = ["network", "rate_limit"]
backoff = "exponential"
base_delay = 0.5
max_delay = 20
jitter = "full"
deadline = 90
attempt_timeout = 5.5
resource = "shop.example.com"
nested = true

[policies.shop.overrides.rate_limit]
base_delay = 30
max_delay = 120.0
max_attempts = 3

[policies.plain]
retry_on = "retryable"
jitter = 0.2
"""


@pytest.fixture
def load(tmp_path):
    def load(text):
        file = tmp_path / "outlast.toml"
        file.write_text(text, "utf-8")
        return outlast.load_config(file)

    return load


def test_every_setting_is_read(load):
    policies = load(GOOD).policies
    assert policies["shop"] == RetryPolicy(
        max_attempts=6,
        retry_on={Category.NETWORK, Category.RATE_LIMIT},
        backoff="exponential",
        base_delay=0.5,
        max_delay=20,
        jitter="full",
        deadline=90,
        attempt_timeout=5.5,
        resource="shop.example.com",
        nested=True,
        overrides={Category.RATE_LIMIT: {"base_delay": 30, "max_delay": 120, "max_attempts": 3}},
    )
    assert policies["plain"] == RetryPolicy(retry_on=outlast.RETRYABLE, jitter=0.2)
    assert list(policies) == ["shop", "plain"]


def test_an_override_inherits_what_it_does_not_say(load):
    shop = load(GOOD).policies["shop"]
    chosen = shop.for_category(Category.RATE_LIMIT)
    assert (chosen.backoff, chosen.jitter, chosen.max_attempts) == ("exponential", "full", 3)
    assert shop.replace(jitter=0).for_category(Category.RATE_LIMIT).jitter == 0


def test_retryable_means_what_the_classifier_calls_retryable(load):
    plain = load(GOOD).policies["plain"]
    assert plain.retries(TimeoutError())
    assert plain.retries(outlast.errors.RetryableError("x"))
    assert not plain.retries(ValueError())


def test_an_empty_list_retries_nothing(load):
    """Pitfall 19."""
    assert not load("[policies.never]\nretry_on = []\n").policies["never"].retries(ConnectionError())


def test_a_file_without_policies_has_none(load):
    assert load("").policies == {}
    assert outlast.Config().policies == {}


def test_configure_hands_them_over(tmp_path, monkeypatch):
    before = outlast.default_classifier()
    (tmp_path / "outlast.toml").write_text(GOOD, "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OUTLAST_CONFIG", raising=False)
    try:
        config = outlast.configure(rules=[outlast.Rule(category="data", status=418)])
    finally:
        outlast.use_classifier(before)
    assert set(config.policies) == {"shop", "plain"}
    assert len(config.rules) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("policies = 3\n", r"outlast\.toml: policies: must be a table, not a whole number"),
        ("[policies]\nshop = 'x'\n", r"policies\.shop: must be a table, not text"),
        ("[policies.shop]\nattempts = 3\n", r"policies\.shop\.attempts: unknown key; choose from: max_attempts, "),
        ("[policies.shop]\nmax_attempts = '3'\n", r"policies\.shop\.max_attempts: must be a whole number, not text"),
        ("[policies.shop]\nmax_attempts = true\n", r"policies\.shop\.max_attempts: must be a whole number, not true"),
        ("[policies.shop]\nmax_attempts = 0\n", r"policies\.shop\.max_attempts: max_attempts is 0; give a whole"),
        ("[policies.shop]\nbase_delay = nan\n", r"policies\.shop\.base_delay: base_delay is nan"),
        (
            "[policies.shop]\nbackoff = 'cubic'\n",
            r"policies\.shop\.backoff: 'cubic' is not a backoff; choose one of: fixed",
        ),
        ("[policies.shop]\njitter = 'some'\n", r"policies\.shop\.jitter: jitter is 'some'; choose one of: none, full"),
        ("[policies.shop]\nmax_attempts = 3\nmax_retries = 3\n", r"policies\.shop: .*two names of the same setting"),
        ("[policies.shop]\nretry_on = ['nope']\n", r"policies\.shop\.retry_on\[0\]: 'nope' is not a category; choose"),
        (
            "[policies.shop]\nretry_on = 'network'\n",
            r"policies\.shop\.retry_on: must be a list of categories, or 're",
        ),
        ("[policies.shop.overrides.nope]\n", r"policies\.shop\.overrides\.nope: 'nope' is not a category"),
        ("[policies.shop.overrides]\nnetwork = 3\n", r"policies\.shop\.overrides\.network: must be a table"),
        (
            "[policies.shop.overrides.network]\nretry_on = []\n",
            r"policies\.shop\.overrides\.network\.retry_on: unknown key; choose from: max_attempts",
        ),
        (
            "[policies.shop.overrides.network]\nmax_delay = -1\n",
            r"policies\.shop\.overrides\.network\.max_delay: max_delay is -1",
        ),
    ],
)
def test_a_mistake_is_named_with_its_place(load, text, message):
    with pytest.raises(ConfigError, match=message):
        load(text)
