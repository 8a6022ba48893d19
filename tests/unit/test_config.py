"""Rules from outlast.toml, and the place of every mistake."""

import pytest

import outlast
from outlast.errors import ConfigError

GOOD = """
[[classify.rules]]
name = "vendor is being deployed"
type = "vendor.errors.Busy"
text = "deploying"
category = "api_temporary"
retry_after = 30

[[classify.rules]]
status = [418, 420]
category = "rate_limit"
retryable = false

[redact]
patterns = ["customer \\\\d+"]
"""


@pytest.fixture(autouse=True)
def _default_classifier():
    before = outlast.default_classifier()
    yield
    outlast.use_classifier(before)


def write(folder, text):
    file = folder / "outlast.toml"
    file.write_text(text, "utf-8")
    return file


def test_rules_and_patterns_are_read(tmp_path):
    class Busy(Exception):
        pass

    Busy.__module__ = "vendor.errors"
    Busy.__qualname__ = "Busy"
    judge = outlast.load_config(write(tmp_path, GOOD)).classifier()
    failure = judge.classify(Busy("deploying for customer 4711"))

    assert (failure.category, failure.retry_after) == ("api_temporary", 30)
    assert failure.rule == "rule: vendor is being deployed"
    assert failure.message == "deploying for ***"
    assert judge.classify(outlast.Evidence(http_status=420)).retryable is False


def test_configure_uses_the_file_of_the_folder_for_the_whole_process(tmp_path, monkeypatch):
    write(tmp_path, GOOD)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OUTLAST_CONFIG", raising=False)
    config = outlast.configure(rules=[outlast.Rule(category="data", status=418)])

    assert len(config.rules) == 3
    assert outlast.classify(outlast.Evidence(http_status=420)).category == "rate_limit"
    assert outlast.classify(outlast.Evidence(http_status=418)).category == "data"


def test_configure_without_a_file_is_the_default(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OUTLAST_CONFIG", raising=False)

    assert outlast.configure() == outlast.Config()


def test_where_alerts_go_is_for_the_app(tmp_path, monkeypatch):
    file = write(tmp_path, '[app]\nnotify = [" slack+https://a.example.com/hidden ", "mailto://me:hidden@b"]\n')
    monkeypatch.delenv("OUTLAST_NOTIFY", raising=False)
    config = outlast.configure(file)

    assert config.for_app == {"notify": ("slack+https://a.example.com/hidden", "mailto://me:hidden@b")}
    assert "hidden" not in repr(config)


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("slack://a", ("slack://a",)),
        (" slack://a , mailto://b?to=c,d&x=1,tgram://e\n", ("slack://a", "mailto://b?to=c,d&x=1", "tgram://e")),
        ("slack://a,,json://b,", ("slack://a", "json://b")),
        (" , ", ("json://file",)),
        ("", ("json://file",)),
    ],
)
def test_the_variable_for_alerts_goes_before_the_file(tmp_path, monkeypatch, text, addresses):
    file = write(tmp_path, '[app]\nnotify = ["json://file"]\n')
    monkeypatch.setenv("OUTLAST_NOTIFY", text)

    assert outlast.configure(file).for_app["notify"] == addresses


def test_the_variable_names_the_file(tmp_path, monkeypatch):
    monkeypatch.setenv("OUTLAST_CONFIG", str(write(tmp_path, GOOD)))
    assert len(outlast.configure().rules) == 2
    monkeypatch.setenv("OUTLAST_CONFIG", str(tmp_path / "missing.toml"))
    with pytest.raises(ConfigError, match=r"missing\.toml: cannot be read: No such file"):
        outlast.configure()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[classify.rules]\n", r"outlast\.toml: .*line 1"),
        ("a = 1\nb = ]\n", r"outlast\.toml: .*line 2, column 5"),
        ("[clasify]\n", r"outlast\.toml: clasify: unknown key; choose from: classify, redact"),
        ("classify = 3\n", r"outlast\.toml: classify: must be a table, not a whole number"),
        ("[classify]\nrule = []\n", r"classify\.rule: unknown key; choose from: rules"),
        ("[classify]\nrules = 'x'\n", r"classify\.rules: must be a list, not text"),
        ("[classify]\nrules = ['x']\n", r"classify\.rules\[0\]: must be a table, not text"),
        ("[[classify.rules]]\ntext = 'x'\n", r"classify\.rules\[0\]\.category: is missing; choose one of: network, "),
        (
            "[[classify.rules]]\ntext = 'x'\ncategory = 'nope'\n",
            r"classify\.rules\[0\]\.category: 'nope' is not a category; choose one of: network, rate_limit",
        ),
        ("[[classify.rules]]\ncategory = 'data'\n", r"classify\.rules\[0\]: a rule needs at least one condition"),
        (
            "[[classify.rules]]\ncategory = 'data'\ntext = 'a'\n[[classify.rules]]\ncategory = 'data'\nstatus = '5xx'\n",
            r"classify\.rules\[1\]\.status: must be a whole number or a list, not text",
        ),
        (
            "[[classify.rules]]\ncategory = 'data'\nstatus = 42\n",
            r"classify\.rules\[0\]\.status: 42 is not an HTTP status",
        ),
        (
            "[[classify.rules]]\ncategory = 'data'\nstatus = true\n",
            r"classify\.rules\[0\]\.status: must be a whole number or a list, not true or false",
        ),
        (
            "[[classify.rules]]\ncategory = 'data'\npredicate = 'x'\n",
            r"classify\.rules\[0\]\.predicate: unknown key; choose from: name, category, type",
        ),
        (
            "[[classify.rules]]\ncategory = 'data'\ntext = 'x'\nretry_after = -1\n",
            r"classify\.rules\[0\]\.retry_after: retry_after is -1",
        ),
        ("[redact]\npatterns = ['(']\n", r"redact\.patterns\[0\]: '\(' is not a valid regular expression"),
        ("[redact]\npatterns = [3]\n", r"redact\.patterns\[0\]: must be text"),
    ],
)
def test_a_mistake_is_named_with_its_place_and_the_valid_names(tmp_path, text, message):
    with pytest.raises(ConfigError, match=message):
        outlast.load_config(write(tmp_path, text))


def test_a_file_that_is_no_text(tmp_path):
    file = tmp_path / "outlast.toml"
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="utf-8"):
        outlast.load_config(file)


def test_the_password_of_the_url_is_not_in_the_repr(tmp_path):
    config = outlast.load_config(write(tmp_path, "[app]\nurl = 'postgresql://me:hunter2@db/shop'\n"))

    assert "hunter2" not in repr(config)
    assert config.for_app == {"url": "postgresql://me:hunter2@db/shop"}


@pytest.mark.parametrize("text", ["heartbeat = 10.5", "lease = 30\nheartbeat = 16", "lease = 1\nheartbeat = 0.6"])
def test_a_heart_that_beats_too_seldom(tmp_path, text):
    with pytest.raises(ConfigError, match=r"outlast\.toml: app\.heartbeat: is .* must be at least two heartbeats long"):
        outlast.load_config(write(tmp_path, f"[app]\n{text}\n"))


@pytest.mark.parametrize("text", ["heartbeat = 10", "lease = 30\nheartbeat = 15", "lease = 1"])
def test_a_heart_that_beats_often_enough(tmp_path, text):
    outlast.App("memory://", **outlast.load_config(write(tmp_path, f"[app]\n{text}\n")).for_app)


@pytest.mark.parametrize(
    "url",
    [
        "mysql://me:hunter2@h/d",
        "hunter2",
        "sqlite",
        "sqlite:",
        "sqlite://",
        "sqlite:///",
        "sqlite://host/x.db",
        "",
        "postgresql",
    ],
)
def test_a_url_that_no_app_takes(tmp_path, url):
    with pytest.raises(ConfigError, match=r"outlast\.toml: app\.url: must be sqlite:///file\.db") as caught:
        outlast.load_config(write(tmp_path, f"[app]\nurl = '{url}'\n"))
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["sqlite:///x.db", "sqlite:////tmp/x.db", "SQLite:///x.db", "memory://", "postgres://h/d"]
)
def test_a_url_that_an_app_takes(tmp_path, url):
    outlast.App(**outlast.load_config(write(tmp_path, f"[app]\nurl = '{url}'\n")).for_app)
