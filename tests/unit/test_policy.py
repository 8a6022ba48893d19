"""What a policy is: its numbers (R1, R2), its names for them (C1-C3), jitter (C15), and what it refuses."""

import copy
import inspect
import pickle
import random
from datetime import timedelta
from types import MappingProxyType

import pytest

import outlast
from outlast import RETRYABLE, Category, Failure, RetryPolicy
from outlast.decide.backoff import DoublingPause
from outlast.errors import ConfigError, NetworkError, PermanentError, RateLimitError
from outlast.testing import fake_clock


class TestNumbers:
    def test_r1_the_defaults(self):
        policy = RetryPolicy()
        assert (policy.max_attempts, policy.backoff, policy.base_delay, policy.max_delay) == (3, "fixed", 1.0, 60.0)
        assert (policy.jitter, policy.deadline, policy.attempt_timeout, policy.nested) == (None, None, None, False)
        assert policy.should_retry(Exception(), attempt=1)

    def test_r2_the_pinned_ones(self):
        assert RetryPolicy(max_retries=3).should_retry(Exception(), attempt=3) is False
        assert RetryPolicy(retry_on=(ConnectionError,)).should_retry(ConnectionError(), attempt=1) is True
        assert RetryPolicy(retry_on=(ConnectionError,)).should_retry(ValueError(), attempt=1) is False
        assert [RetryPolicy(backoff="exponential", base_delay=1.0).get_delay(n) for n in (1, 2, 3)] == [1.0, 2.0, 4.0]
        assert RetryPolicy(backoff="exponential", base_delay=10.0, max_delay=30.0).get_delay(10) == 30.0

    def test_c1_the_nth_retry_waits_base_times_two_to_the_n_minus_one(self):
        policy = RetryPolicy(backoff="exponential", base_delay=0.25, max_delay=1e9)
        assert [policy.get_delay(n) for n in (1, 2, 5, 11)] == [0.25, 0.5, 4, 256]

    def test_c2_two_names_of_one_number(self):
        assert RetryPolicy(max_retries=0).max_attempts == RetryPolicy(max_retries=1).max_attempts == 1
        assert RetryPolicy(max_attempts=4).max_retries == RetryPolicy(max_retries=4).max_attempts == 4
        with pytest.raises(ConfigError, match="two names"):
            RetryPolicy(max_attempts=3, max_retries=3)

    def test_c3_nothing_sleeps_after_the_last_attempt(self):
        with fake_clock() as clock, pytest.raises(NetworkError):
            outlast.call(_fail, NetworkError("x"), policy=RetryPolicy(max_attempts=5, backoff="exponential"))
        assert clock.waits == [1, 2, 4, 8]

    def test_pitfall_8_attempt_ten_thousand_returns_the_cap(self):
        for backoff in ("exponential", "linear"):
            assert RetryPolicy(backoff=backoff, max_delay=300).get_delay(10_000) == 300
        assert RetryPolicy(backoff="exponential", base_delay=1e308, max_delay=7).get_delay(10_000) == 7

    def test_pitfall_8_a_number_too_large_for_a_float_returns_the_cap(self):
        assert RetryPolicy(backoff=lambda n: 10**n, max_delay=60).get_delay(400) == 60
        for backoff in ("exponential", "linear", "fixed"):
            assert RetryPolicy(backoff=backoff, base_delay=10**308, max_delay=10**308).get_delay(9) == 10**308

    def test_an_attempt_below_the_first_waits_like_the_first(self):
        for backoff in ("exponential", "linear", "fixed"):
            assert [RetryPolicy(backoff=backoff).get_delay(n) for n in (0, -5)] == [1, 1]

    def test_times_may_be_timedeltas(self):
        policy = RetryPolicy(
            base_delay=timedelta(milliseconds=250),
            max_delay=timedelta(minutes=1),
            deadline=timedelta(hours=1),
            attempt_timeout=timedelta(seconds=5),
        )
        assert (policy.base_delay, policy.max_delay, policy.deadline, policy.attempt_timeout) == (0.25, 60, 3600, 5)

    def test_a_backoff_of_ones_own(self):
        policy = RetryPolicy(backoff=lambda n: [0.1, 0.7, 99][n - 1], max_delay=10)
        assert [policy.get_delay(n) for n in (1, 2, 3)] == [0.1, 0.7, 10]

    def test_pitfall_19_zero_stays_zero(self):
        policy = RetryPolicy(base_delay=0, max_delay=0, jitter=0, deadline=0, attempt_timeout=0, retry_on=())
        assert (policy.base_delay, policy.max_delay, policy.jitter) == (0, 0, 0)
        assert (policy.deadline, policy.attempt_timeout, policy.retry_on) == (0, 0, ())
        assert policy.get_delay(1) == 0
        assert not policy.retries(ConnectionError())


class TestJitter:
    @pytest.mark.parametrize(
        ("jitter", "least", "most"),
        [("full", 0, 4), ("equal", 2, 4), (0.25, 3, 5), (True, 3.6, 4.4), ("none", 4, 4), (0, 4, 4), (None, 4, 4)],
    )
    def test_c15_its_range(self, jitter, least, most):
        policy = RetryPolicy(backoff="exponential", jitter=jitter)
        assert policy.get_delay(3, chance=lambda: 0.0) == pytest.approx(least)
        assert policy.get_delay(3, chance=lambda: 1.0) == pytest.approx(most)

    def test_decorrelated_builds_on_the_wait_before(self):
        policy = RetryPolicy(jitter="decorrelated", base_delay=1, max_delay=20)
        assert policy.get_delay(1, chance=lambda: 1.0) == 3
        assert policy.get_delay(2, previous=3, chance=lambda: 1.0) == 9
        assert policy.get_delay(3, previous=9, chance=lambda: 1.0) == 20
        assert policy.get_delay(3, previous=9, chance=lambda: 0.0) == 1

    @pytest.mark.parametrize("jitter", ["full", "equal", "decorrelated", 0.1])
    def test_pitfall_9_waits_at_the_cap_still_vary_and_stay_below_it(self, jitter):
        policy = RetryPolicy(backoff="exponential", jitter=jitter, max_delay=30)
        chance = random.Random(7).random
        waits = [policy.get_delay(50, previous=30, chance=chance) for _ in range(200)]
        assert len(set(waits)) > 100
        assert all(0 <= wait <= 30 for wait in waits)

    def test_c15_a_policy_written_out_has_none(self):
        assert {RetryPolicy().get_delay(1) for _ in range(20)} == {1.0}

    def test_without_a_source_of_chance_the_systems_is_used(self):
        assert len({RetryPolicy(jitter="full").get_delay(1) for _ in range(20)}) > 10


class TestOverrides:
    policy = RetryPolicy(
        max_attempts=2, backoff="exponential", overrides={"rate_limit": {"base_delay": 30, "max_attempts": 4}}
    )

    def test_a_category_has_its_own_waits_and_attempts(self):
        limited = Failure(Category.RATE_LIMIT, retryable=True)
        assert self.policy.delay_after(limited, 1) == 30
        assert self.policy.delay_after(Failure(Category.NETWORK, retryable=True), 1) == 1
        assert self.policy.should_retry(RateLimitError("x"), attempt=3)
        assert not self.policy.should_retry(NetworkError("x"), attempt=2)

    def test_in_the_loop(self):
        with fake_clock() as clock, pytest.raises(RateLimitError):
            outlast.call(_fail, RateLimitError("x"), policy=self.policy)
        assert clock.waits == [30, 60, 60]

    def test_a_whole_policy_may_stand_there(self):
        policy = RetryPolicy(overrides={Category.NETWORK: RetryPolicy(base_delay=9)})
        assert policy.for_category(Category.NETWORK).base_delay == 9
        assert policy.for_category(Category.DATA) is policy

    def test_they_follow_a_change_of_the_policy(self):
        changed = self.policy.replace(backoff="fixed", max_attempts=9)
        assert changed.for_category(Category.RATE_LIMIT).backoff == "fixed"
        assert changed.for_category(Category.RATE_LIMIT).max_attempts == 4

    def test_an_unknown_category_is_refused(self):
        with pytest.raises(ConfigError, match="'slow' is not a category; choose one of: network"):
            RetryPolicy(overrides={"slow": {}})


class TestAsAValue:
    policy = RetryPolicy(retry_on=RETRYABLE, jitter="full", overrides={"network": {"base_delay": 3}})

    def test_replace(self):
        changed = self.policy.replace(max_attempts=7)
        assert (changed.max_attempts, changed.jitter, changed.retry_on) == (7, "full", RETRYABLE)
        assert self.policy.max_attempts == 3
        assert self.policy.replace(max_retries=8).max_attempts == 8
        assert self.policy.replace() == self.policy

    def test_it_is_frozen(self):
        with pytest.raises(AttributeError, match=r"use replace\(deadline=…\)"):
            self.policy.deadline = 3
        with pytest.raises(AttributeError):
            del self.policy.deadline

    def test_pickle_and_copy(self):
        for twin in (pickle.loads(pickle.dumps(self.policy)), copy.deepcopy(self.policy)):
            assert twin == self.policy
            assert hash(twin) == hash(self.policy)
            assert twin.replace(max_attempts=2) == self.policy.replace(max_attempts=2)
            assert twin.retries(TimeoutError())
            with pytest.raises(TypeError, match="does not support item assignment"):
                twin.overrides[Category.DATA] = RetryPolicy()

    def test_the_overrides_are_frozen_too(self):
        settings = {"base_delay": 3}
        policy = RetryPolicy(overrides={"network": settings})
        settings["base_delay"] = 99
        with pytest.raises(TypeError, match="does not support item assignment"):
            policy.overrides[Category.DATA] = RetryPolicy()
        assert policy.replace(max_attempts=9).for_category(Category.NETWORK).base_delay == 3
        assert copy.copy(policy) == policy
        assert RetryPolicy(overrides=MappingProxyType({"network": MappingProxyType({"base_delay": 3})})) == policy
        assert RetryPolicy(overrides=policy.overrides) == policy
        assert policy.overrides == {Category.NETWORK: policy.for_category(Category.NETWORK)}

    def test_it_is_shown_by_its_settings(self):
        assert "overrides={<Category.NETWORK: 'network'>: RetryPolicy(" in repr(self.policy)
        assert "overrides={}" in repr(RetryPolicy())

    def test_the_order_of_overrides_means_nothing(self):
        one, other = {"network": {"base_delay": 3}}, {"data": {"base_delay": 4}}
        first, second = RetryPolicy(overrides=one | other), RetryPolicy(overrides=other | one)
        assert (first, hash(first)) == (second, hash(second))

    def test_equal_by_settings(self):
        assert RetryPolicy(max_retries=3) == RetryPolicy(max_attempts=3)
        assert RetryPolicy(overrides={"data": {}}) != RetryPolicy()
        assert len({RetryPolicy(), RetryPolicy(), RetryPolicy(max_attempts=9)}) == 2


class TestWhichErrors:
    def test_c14_a_permanent_error_is_retried_only_where_it_is_named(self):
        assert not RetryPolicy().retries(PermanentError())
        assert not RetryPolicy(retry_on=RETRYABLE).retries(PermanentError())
        assert RetryPolicy(retry_on=(PermanentError,)).retries(PermanentError())

    @pytest.mark.parametrize(
        "retry_on", [None, (BaseException,), BaseException, lambda error: True, set(Category), RETRYABLE]
    )
    @pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit, GeneratorExit])
    def test_pitfall_2_what_is_no_exception_is_never_retried(self, retry_on, stop):
        assert not RetryPolicy(retry_on=retry_on).should_retry(stop(), attempt=1)

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"max_attempts": 0}, "max_attempts is 0; give a whole number, 1 or more"),
            (
                {"max_attempts": -(10**5000)},
                "max_attempts is a number with too many digits; give a whole number, 1 or more",
            ),
            ({"max_retries": -1}, "max_retries is -1; give a whole number, 0 or more"),
            ({"backoff": "cubic"}, "'cubic' is not a backoff; choose one of: fixed, linear, exponential"),
            ({"backoff": None}, "None is not a backoff"),
            ({"max_delay": -0.1}, "max_delay is -0.1; give seconds or a timedelta, 0 or more"),
            ({"base_delay": float("nan")}, "base_delay is nan"),
            ({"base_delay": True}, "base_delay is True"),
            ({"base_delay": timedelta(seconds=-1)}, "base_delay is datetime.timedelta"),
            ({"deadline": float("inf")}, "deadline is inf"),
            ({"attempt_timeout": "5"}, "attempt_timeout is '5'"),
            ({"jitter": "some"}, "jitter is 'some'; choose one of: none, full, equal, decorrelated"),
            ({"jitter": 1.5}, "jitter is 1.5"),
            ({"jitter": float("nan")}, "jitter is nan"),
            ({"retry_on": 3}, "retry_on is 3; give exception classes, a set of categories, outlast.RETRYABLE"),
            ({"retry_on": (int,)}, "in a list give exception classes and names of categories"),
            ({"resource": 5}, "resource is 5; give the name of the resource, such as 'api.example.com'"),
            ({"resource": ""}, "resource is ''; give the name"),
            ({"nested": "no"}, "nested is 'no'; give True or False"),
            ({"nested": None}, "nested is None; give True or False"),
            ({"base_delay": 10**5000}, "base_delay is a number with too many digits; give"),
            ({"base_delay": 10**400}, "base_delay is 10{79}…; give seconds or a timedelta, 0 or more"),
            ({"deadline": timedelta}, "deadline is <class 'datetime.timedelta'>; give seconds"),
            ({"overrides": 5}, "overrides is 5; give a dict of policies, or of their settings, by category"),
            (
                {"overrides": {"data": {"base": 5}}},
                "'base' is not a setting of an override; choose from: backoff, base",
            ),
        ],
    )
    def test_bad_settings_are_refused_by_name(self, settings, message):
        with pytest.raises(ValueError, match=message):
            RetryPolicy(**settings)
        with pytest.raises(ConfigError, match=message):
            RetryPolicy().replace(**settings)


class TestPreview:
    def test_as_data(self):
        schedule = RetryPolicy(max_attempts=4, backoff="exponential", jitter="equal").preview()
        assert [(wait.after, wait.least, wait.most, wait.total) for wait in schedule.waits] == [
            (1, 0.5, 1, 1),
            (2, 1, 2, 3),
            (3, 2, 4, 7),
        ]
        assert (schedule.max_attempts, schedule.deadline) == (4, None)

    def test_what_the_deadline_leaves_no_room_for_is_left_out(self):
        schedule = RetryPolicy(max_attempts=9, backoff="exponential", deadline=10).preview()
        assert [wait.most for wait in schedule.waits] == [1, 2, 4]

    def test_a_wait_that_ends_at_the_deadline_is_not_begun(self):
        for deadline, waits in ((3, [1]), (3.5, [1, 2]), (0, []), (1, [])):
            policy = RetryPolicy(max_attempts=9, backoff="exponential", deadline=deadline)
            with fake_clock() as clock, pytest.raises(NetworkError):
                outlast.call(_fail, NetworkError("x"), policy=policy)
            assert [wait.most for wait in policy.preview().waits] == clock.waits == waits

    def test_decorrelated_waits_grow_from_the_base(self):
        schedule = RetryPolicy(max_attempts=5, jitter="decorrelated", max_delay=20).preview()
        assert [(wait.least, wait.most) for wait in schedule.waits] == [(1, 3), (1, 9), (1, 20), (1, 20)]

    def test_waits_that_come_only_where_others_were_short_say_so(self):
        chart = str(RetryPolicy(max_attempts=4, jitter="equal", base_delay=4, deadline=8).preview())
        assert chart.splitlines() == [
            "4 attempts, 8 s in all",
            f"  1 → 2  {'█' * 20}{'░' * 20} 2 to 4 s",
            f"  2 → 3  {'█' * 20}{'░' * 20} 2 to 4 s, if there is time",
            f"  3 → 4  {'█' * 20}{'░' * 20} 2 to 4 s, if there is time",
        ]

    def test_as_a_chart(self):
        chart = str(RetryPolicy(max_attempts=3, backoff="exponential", jitter="full", deadline=60).preview())
        assert chart.splitlines() == [
            "3 attempts, 60 s in all",
            f"  1 → 2  {'░' * 20} 0 to 1 s",
            f"  2 → 3  {'░' * 40} 0 to 2 s",
        ]
        assert "█" * 40 + " 1 s" in str(RetryPolicy().preview())

    def test_a_long_one_is_cut(self):
        assert str(RetryPolicy(max_attempts=1000).preview()).endswith("… and 979 more")
        assert str(RetryPolicy(max_attempts=1).preview()) == "1 attempt"


def test_type_checkers_know_the_settings():
    """Those of `RetryPolicy` itself, in its words."""
    from outlast.decide.settings import PolicySettings

    own = {name: each.annotation for name, each in inspect.signature(RetryPolicy).parameters.items()}
    described = {name: getattr(each, "__forward_arg__", each) for name, each in PolicySettings.__annotations__.items()}
    assert described == own


def _fail(error):
    raise error


@pytest.mark.parametrize("override", [5, {"deadline": 3}, {"retry_on": ()}, {"resource": "x"}])
def test_an_override_that_would_be_ignored_is_refused(override):
    with pytest.raises(ConfigError, match="override"):
        RetryPolicy(overrides={"network": override})


def test_a_doubling_pause_grows_to_its_cap_and_begins_again():
    pause = DoublingPause(0.1, 5.0)
    assert pause.seconds == 0
    assert [pause.grow() for _ in range(8)] == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0])
    assert pause.seconds == 5.0
    pause.reset()
    assert (pause.seconds, pause.grow()) == (0, 0.1)


def test_a_category_by_its_name():
    policy = RetryPolicy(retry_on="network")
    assert policy.retry_on == {Category.NETWORK}
    assert policy.retries(ConnectionError())
    assert not policy.retries(ValueError())
    with pytest.raises(ConfigError, match="'net' is not a category; choose one of"):
        RetryPolicy(retry_on="net")


@pytest.mark.parametrize("kind", [list, tuple])
def test_classes_and_names_of_categories_can_be_mixed(kind):
    names = RetryPolicy(retry_on=kind(["network", Category.RATE_LIMIT]))
    assert names == RetryPolicy(retry_on={"network", "rate_limit"})
    mixed = RetryPolicy(retry_on=kind([KeyError, "network", ZeroDivisionError]))
    assert hash(mixed) == hash(RetryPolicy(retry_on=kind([KeyError, ZeroDivisionError, "network"])))
    assert pickle.loads(pickle.dumps(mixed)) == mixed
    for error, retried in (
        (KeyError(1), True), (ZeroDivisionError(), True), (NetworkError("x"), True), (ConnectionResetError(), True),
        (ValueError(), False), (RateLimitError("x"), False), (KeyboardInterrupt(), False),
    ):  # fmt: skip
        assert mixed.should_retry(error, 1) is retried, error
