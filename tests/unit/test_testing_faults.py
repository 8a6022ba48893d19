"""Faults by order: at functions and at points, by category, by count and by rate."""

import functools
import sys
import threading
import types

import anyio
import pytest

import outlast
from outlast.errors import ConfigError, NetworkError
from outlast.testing import Faults, NotReachedError, fake_clock, inject_faults, record_decisions

SHOP = """
import functools
import outlast

def fetch(url):
    return f"page of {url}"

async def fetch_async(url):
    return f"page of {url}"

@outlast.retry
def fetch_again(url):
    return f"page of {url}"

@outlast.retry
async def fetch_again_async(url):
    return f"page of {url}"

@outlast.retry(max_attempts=3, resource="shop")
def fetch_guarded(url):
    return f"page of {url}"

@outlast.retry(max_attempts=3, resource="shop", deadline=None, fallback=str)
def fetch_plain(url):
    return f"page of {url}"

@outlast.retry(max_attempts=3, resource="shop", fallback=str)
async def fetch_guarded_async(url):
    return f"page of {url}"

@functools.lru_cache
def fetch_once(url):
    return f"page of {url}"

def noted(function):
    @functools.wraps(function)
    def call(*args):
        return f"noted {function(*args)}"
    return call

@outlast.retry
@noted
def fetch_noted(url):
    return f"page of {url}"

def upload(body):
    outlast.point("before-upload")
    outlast.point("after-upload")
    return body

class Client:
    timeout = 5
    def get(self, url):
        return f"{self.timeout} {url}"
    @staticmethod
    def parse(text):
        return text.upper()
    @classmethod
    def make(cls):
        return cls()
    @outlast.retry
    async def ask(self, url):
        return f"{self.timeout} {url}"

class Other(Client):
    pass

client = Client()
"""


@pytest.fixture
def shop(monkeypatch):
    module = types.ModuleType("shop_under_test")
    monkeypatch.setitem(sys.modules, "shop_under_test", module)
    exec(SHOP, module.__dict__)
    return module


@pytest.fixture
def faults():
    with fake_clock(), inject_faults() as faults:
        yield faults


def test_a_function_fails_so_often_and_no_more(shop, faults):
    fault = faults.fail("shop_under_test.fetch", outlast.Category.NETWORK, times=2, after=1)

    assert shop.fetch("a") == "page of a"
    for _ in range(2):
        with pytest.raises(ConnectionResetError):
            shop.fetch("b")
    assert shop.fetch("c") == "page of c"
    assert (fault.calls, fault.failed) == (4, 2)


def test_without_a_number_every_call_fails(shop, faults):
    faults.fail("shop_under_test.fetch", NetworkError)
    for _ in range(5):
        with pytest.raises(NetworkError):
            shop.fetch("a")


@pytest.mark.parametrize("name", ["fetch_again", "fetch_guarded", "fetch_plain", "fetch_noted"])
def test_a_decorator_that_retries_sees_the_failure(shop, faults, name):
    fault = faults.fail(f"shop_under_test.{name}", "network", times=2)
    with record_decisions() as decisions:
        assert getattr(shop, name)("a").endswith("page of a")
    assert decisions.retries(name) == 2
    assert fault.calls == 3


@pytest.mark.parametrize("name", ["fetch_async", "fetch_again_async", "fetch_guarded_async"])
def test_coroutine_functions_fail_when_they_are_awaited(shop, faults, name):
    faults.fail(f"shop_under_test.{name}", "network", times=1)

    async def use():
        waiting = getattr(shop, name)("a")
        try:
            return await waiting
        except ConnectionResetError:
            return "failed"

    assert anyio.run(use) == ("failed" if name == "fetch_async" else "page of a")


def test_methods_of_every_kind(shop, faults):
    for name in ("get", "parse", "make"):
        faults.fail(f"shop_under_test.Client.{name}", "network", times=1)
    calls = [lambda: shop.Client().get("a"), lambda: shop.Client.parse("a"), lambda: shop.Client.make().timeout]
    for call in calls:
        with pytest.raises(ConnectionResetError):
            call()
    assert [call() for call in calls] == ["5 a", "A", 5]


def test_an_async_method_beneath_its_decorator(shop, faults):
    faults.fail("shop_under_test.Client.ask", "network", times=1)
    assert anyio.run(shop.Client().ask, "a") == "5 a"
    assert faults.all[0].failed == 1


def test_a_subclass_or_an_object_alone(shop, faults):
    faults.fail("shop_under_test.Other.get", "network")
    faults.fail("shop_under_test.client.get", "network")
    assert shop.Client().get("a") == "5 a"
    for one in (shop.Other(), shop.client):
        with pytest.raises(ConnectionResetError):
            one.get("a")


def test_a_decorator_that_cannot_be_opened_is_replaced_as_a_whole(shop, faults):
    faults.fail("shop_under_test.fetch_once", "network", times=1)
    with pytest.raises(ConnectionResetError):
        shop.fetch_once("a")
    assert shop.fetch_once("a") == "page of a"


def test_a_module_that_has_imported_the_function_by_name_meets_the_fault(shop, faults, monkeypatch):
    user = types.ModuleType("user_of_shop")
    user.get_page = shop.fetch
    monkeypatch.setitem(sys.modules, "user_of_shop", user)
    faults.fail("shop_under_test.fetch", "network")
    with pytest.raises(ConnectionResetError):
        user.get_page("a")
    faults.end()
    assert user.get_page is shop.fetch


def test_a_task_fails_in_its_worker(faults, monkeypatch):
    from outlast.testing import drain

    module = types.ModuleType("tasks_under_test")
    monkeypatch.setitem(sys.modules, "tasks_under_test", module)
    app = outlast.App("memory://")

    @app.task
    def scrape(url: str) -> None: ...

    module.scrape = scrape
    fault = faults.fail("tasks_under_test.scrape", "network", times=1)
    scrape.enqueue(url="a")
    assert drain(app).retried == 1
    assert (fault.calls, fault.failed) == (2, 1)


def test_a_point_fails(shop, faults):
    fault = faults.fail("after-upload", outlast.Category.RATE_LIMIT, retry_after=3, times=1)
    with pytest.raises(Exception, match="429") as caught:
        shop.upload("x")
    assert outlast.classify(caught.value).retry_after == 3
    assert shop.upload("x") == "x"
    assert fault.calls == 2


def test_a_point_does_nothing_otherwise(shop):
    assert shop.upload("x") == "x"


def test_a_point_with_a_dot_is_refused_where_a_test_listens(faults):
    faults.fail("after-upload", "network", optional=True)
    with pytest.raises(ConfigError, match="call it 'after-upload'"):
        outlast.point("after.upload")


def test_faults_at_one_place_take_turns(shop, faults):
    faults.fail("shop_under_test.fetch", "rate_limit", times=1)
    faults.fail("shop_under_test.fetch", "not_found", times=1)
    seen = []
    for _ in range(3):
        try:
            seen.append(shop.fetch("a"))
        except OSError as error:
            seen.append(outlast.classify(error).category)
    assert seen == ["rate_limit", "not_found", "page of a"]


def strikes(seed, rate=0.2, calls=1000, **more):
    faults = Faults()
    fault = faults.fail("by-rate", NetworkError, rate=rate, seed=seed, **more)
    struck = []
    for number in range(calls):
        try:
            outlast.point("by-rate")
        except NetworkError:
            struck.append(number)
    faults.end()
    assert fault.failed == len(struck)
    return struck


def test_a_rate_is_kept_on_average_and_the_same_calls_fail_again():
    assert 150 < len(strikes(1)) < 250
    assert strikes(1) == strikes(1) != strikes(2)
    assert len(strikes(1, rate=1, calls=10)) == 10


def test_a_rate_with_a_number_of_times():
    assert strikes(1, times=3, after=10) == strikes(1, after=10)[:3]


def test_calls_of_many_threads_are_counted_once_each(faults):
    fault = faults.fail("busy", NetworkError, times=100)
    failed = []

    def work():
        for _ in range(100):
            try:
                outlast.point("busy")
            except NetworkError:
                failed.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert (fault.calls, fault.failed, len(failed)) == (400, 100, 100)


def test_a_fault_that_nothing_came_to_fails_the_test(shop):
    with (
        pytest.raises(NotReachedError, match=r"no call reached the fault at 'shop_under_test\.fetch'"),
        inject_faults() as faults,
    ):
        faults.fail("shop_under_test.fetch", "network")


def test_a_point_that_was_misspelt_is_told_with_those_that_were_passed(shop):
    with pytest.raises(NotReachedError) as caught, inject_faults() as faults:
        faults.fail("after-uplaod", "network")
        shop.upload("x")
        outlast.point("after-upload")
    assert str(caught.value) == (
        "no call reached the fault at 'after-uplaod', so this test proves nothing about it; "
        "passed points: 'before-upload', 'after-upload' (2 times)"
    )


def test_the_error_of_the_test_goes_before_a_fault_that_was_not_met():
    with pytest.raises(KeyError), inject_faults() as faults:
        faults.fail("never", "network")
        raise KeyError


@pytest.mark.parametrize(
    ("place", "told"),
    [
        ("no_such_module.fetch", "module 'no_such_module' does not exist"),
        ("shop_under_test.fetsch", "shop_under_test has no attribute 'fetsch'"),
        ("shop_under_test.Client.gett", r"shop_under_test\.Client has no attribute 'gett'"),
        ("shop_under_test.Client", "a class; name one of its methods"),
        ("shop_under_test.Client.timeout", "is a int: a fault needs a function"),
        ("builtins.str.upper", "cannot be replaced .* put the fault at a function of yours"),
    ],
)
def test_a_place_that_is_none_is_explained(shop, faults, place, told):
    with pytest.raises(ConfigError, match=told):
        faults.fail(place, "network")
    assert faults.all == []


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ({"error": "networc"}, "'networc' is not a category"),
        ({"error": 5}, "5 is not an error; give a category"),
        ({"error": NetworkError, "retry_after": 3}, "set the wait on your own exception"),
        ({"times": 0}, "times is 0; give a whole number, 1 or more"),
        ({"after": -1}, "after is -1"),
        ({"rate": 20}, "rate is 20; give a share of the calls"),
    ],
)
def test_an_order_that_makes_no_sense_is_refused(faults, how, told):
    with pytest.raises(ConfigError, match=told):
        faults.fail("point", **({"error": "network"} | how))


def test_an_exception_of_ones_own_is_raised_as_it_is(shop, faults):
    mine = NetworkError("mine", retry_after=7)
    faults.fail("shop_under_test.fetch", mine)
    for _ in range(2):
        with pytest.raises(NetworkError) as caught:
            shop.fetch("a")
        assert caught.value is mine
    depth = 0
    trace = mine.__traceback__
    while trace is not None:
        depth, trace = depth + 1, trace.tb_next
    assert depth <= 4, "the traceback does not grow from call to call"


def test_a_mistake_in_the_users_module_is_not_taken_for_a_missing_one(tmp_path, monkeypatch, faults):
    (tmp_path / "broken_shop.py").write_text("import no_such_library\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="no_such_library"):
        faults.fail("broken_shop.fetch", "network")


def test_a_chain_of_wrappers_that_leads_to_itself_ends(shop, faults):
    def turning():
        return 1

    turning.__wrapped__ = turning
    shop.turning = functools.partial(turning)
    shop.loop = turning
    faults.fail("shop_under_test.loop", "network", times=1)
    with pytest.raises(ConnectionResetError):
        shop.loop()
    assert shop.loop() == 1


def test_faults_are_listed(faults):
    faults.fail("after-upload", "network", optional=True)
    assert str(faults) == "Fault('after-upload', ConnectionResetError, calls=0, failed=0)"
