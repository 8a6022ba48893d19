"""What is said when a Celery app cannot be attached, and what does not change by it."""

import subprocess
import sys
from datetime import UTC, datetime
from decimal import Decimal
from uuid import UUID

import celery
import pytest
from celery.app.task import Context

import outlast
from outlast.engines.celery import Engine, attach
from outlast.engines.celery.message_codec import CELERY_PART, decode_call, encode_call, unique_key
from outlast.errors import ConfigError, PayloadError
from outlast.queue.masking import masked_parameters, masked_value


@pytest.fixture
def ours():
    return outlast.App("memory://")


@pytest.fixture
def shop():
    return celery.Celery("shop", broker="memory://", set_as_current=False)


def test_it_is_not_loaded_with_the_package():
    code = "import sys, outlast, outlast.app, outlast.worker; print('celery' in sys.modules, 'kombu' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_a_missing_celery_is_said_with_what_to_install():
    code = "import sys; sys.modules['celery'] = None\nimport outlast.engines.celery"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "pip install 'outlast[celery]'" in done.stderr


def test_what_cannot_be_attached(shop, ours):
    with pytest.raises(ConfigError, match="is not a Celery app"):
        attach(ours, ours)
    with pytest.raises(ConfigError, match="policy is 3"):
        attach(shop, ours, policy=3)
    with pytest.raises(ConfigError, match="resend_after"):
        attach(shop, ours, resend_after=0)
    assert isinstance(attach(shop, ours), Engine)
    with pytest.raises(ConfigError, match="already attached"):
        attach(shop, ours)


def test_too_late(shop, ours):
    shop.finalize()
    with pytest.raises(ConfigError, match="call attach right after Celery"):
        attach(shop, ours)


def test_a_queue_of_our_own_tasks_is_not_for_celerys(shop, ours):
    @ours.task(queue="celery")
    def mine():
        pass

    with pytest.raises(ConfigError, match="task mine also uses the queue 'celery'"):
        attach(shop, ours)
    assert attach(shop, ours, queue="their celery").queue == "their celery"


async def _coroutine():
    pass


def _plain():
    pass


@pytest.mark.parametrize(
    ("function", "options", "said"),
    [
        (_coroutine, {}, "coroutine function"),
        (_plain, {"policy": 5}, "policy is 5"),
        (_plain, {"resource": 7}, "resource is 7"),
    ],
)
def test_a_task_that_cannot_be_looked_after_is_refused(shop, ours, function, options, said):
    attach(shop, ours)
    shop.task(function, name="refused", shared=False, **options)
    with pytest.raises(ConfigError, match=said):
        shop.finalize()


def test_eager_and_direct_calls_raise_what_they_raise(shop, ours):
    attach(shop, ours)

    @shop.task(shared=False)
    def fails():
        message = "hung up"
        raise ConnectionError(message)

    with pytest.raises(ConnectionError):
        fails()
    with pytest.raises(ConnectionError):
        fails.apply(throw=True)
    shop.conf.task_always_eager = True
    assert isinstance(fails.delay().result, ConnectionError)
    assert sum(ours.store.counts().values()) == 0


def test_a_base_class_of_the_programs_own_goes_on_around_the_call(ours):
    seen = []

    class Timed(celery.Task):
        def __call__(self, *args, **kwargs):
            seen.append(self.name)
            return self.run(*args, **kwargs)

    shop = celery.Celery("shop", broker="memory://", set_as_current=False, task_cls=Timed)
    attach(shop, ours)

    @shop.task(name="timed", shared=False)
    def task():
        return 5

    assert task.apply().result == 5
    assert seen == ["timed"]


def test_tasks_of_celerys_own_are_left_alone(shop, ours):
    attach(shop, ours)
    assert list(shop.tasks["celery.accumulate"].apply((1, 2)).result) == [1, 2]


class TestEnvelope:
    """Arguments go by their names, and come back as they were."""

    @pytest.fixture
    def call(self, shop):
        def call(function, *args, **kwargs):
            function.__name__ = "called"  # Celery takes no lambda
            task = shop.task(function, name="called", shared=False)
            request = Context(
                id="abc", args=args, kwargs=kwargs, delivery_info={"routing_key": "slow"}, headers={"x": 1}
            )
            return task, request

        return call

    @pytest.mark.parametrize(
        ("function", "args", "kwargs"),
        [
            (lambda url, page=1: None, ("u",), {"page": 2}),
            (lambda url, /, *rest, page=1, **more: None, ("u", "v", "w"), {"page": 2, "other": 3}),
            (lambda url, /, page=1: None, ("u",), {}),
            (lambda url, page=1, *rest: None, (), {"url": "u"}),
            (lambda *rest: None, (1, 2), {}),
            (lambda url: None, (), {"wrong": 1}),
            (lambda at, key, price: None, (datetime(2026, 1, 2, tzinfo=UTC), UUID(int=7), Decimal("4.20")), {}),
        ],
    )
    def test_there_and_back(self, call, function, args, kwargs):
        text = encode_call(*call(function, *args, **kwargs), limit=10_000, celery_retries=False)
        back = decode_call(text, now=0.0)
        assert (tuple(back.args), back.kwargs) == (args, kwargs)
        assert (back.options["task_id"], back.options["headers"]) == ("abc", {"x": 1})

    def test_a_secret_by_position_is_masked(self, call):
        text = encode_call(*call(lambda url, password: None, "u", "hush"), limit=10_000, celery_retries=False)
        assert "hush" in text
        assert "hush" not in masked_parameters(text) + str(masked_value(text))

    def test_a_secret_in_a_header_is_masked_whatever_its_name(self, call):
        task, request = call(lambda url: None, "u")
        request.headers = {"x-thing": "abcdef"}
        text = encode_call(task, request, limit=10_000, celery_retries=False)
        assert decode_call(text, now=0.0).options["headers"] == {"x-thing": "abcdef"}
        assert "abcdef" not in masked_parameters(text) + str(masked_value(text))

    def test_people_are_shown_the_arguments_alone(self, call):
        text = encode_call(*call(lambda url, page=1: None, "u", page=2), limit=10_000, celery_retries=False)
        assert masked_parameters(text) == '{"url":"u","page":2}'
        assert masked_value(text)[CELERY_PART]["id"] == "abc"

    def test_what_json_has_no_form_for_is_refused_without_a_word_of_it(self, call):
        with pytest.raises(PayloadError, match="called: its arguments cannot be encoded as JSON") as refused:
            encode_call(*call(lambda thing: None, object()), limit=10_000, celery_retries=False)
        assert "object at" not in str(refused.value)

    @pytest.mark.parametrize(("value", "said"), [("x" * 500, "the limit is 100"), ("a\x00b", "NUL")])
    def test_what_no_store_holds_is_refused(self, call, value, said):
        with pytest.raises(PayloadError, match=said):
            encode_call(*call(lambda text: None, value), limit=100, celery_retries=False)

    @pytest.mark.parametrize(
        "text", ["", "{}", "[]", '{"a": 1}', f'{{"{CELERY_PART}": 5}}', f'{{"{CELERY_PART}": {{}}}}']
    )
    def test_a_payload_of_somebody_else(self, text):
        with pytest.raises(PayloadError, match="is not that of a Celery task"):
            decode_call(text, now=0.0)

    def test_an_expiry_that_is_over_is_not_sent(self, call):
        task, request = call(lambda: None)
        request.expires = "2026-01-02T00:00:00+00:00"
        text = encode_call(task, request, limit=10_000, celery_retries=False)
        assert "expires" in decode_call(text, now=datetime(2026, 1, 1, tzinfo=UTC).timestamp()).options
        assert "expires" not in decode_call(text, now=datetime(2026, 1, 3, tzinfo=UTC).timestamp()).options

    def test_a_long_id_has_a_short_key(self):
        assert unique_key("abc") == "celery:abc"
        assert len(unique_key("x" * 1000)) < 100
        assert unique_key("x" * 1000) != unique_key("x" * 999)
