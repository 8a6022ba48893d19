"""What is left of faults when their test has ended: nothing, whoever still holds a function with one."""

import sys
import types

import pytest

import outlast
from outlast.errors import ConfigError
from outlast.run import points
from outlast.testing import inject_faults

SHOP = """
import outlast

def fetch(url):
    return f"page of {url}"

async def fetch_async(url):
    return f"page of {url}"

@outlast.retry
def fetch_again(url):
    return f"page of {url}"

class Client:
    def get(self, url):
        return f"page of {url}"
    @staticmethod
    def parse(text):
        return text.upper()
    @classmethod
    def make(cls):
        return cls()

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
def user(shop, monkeypatch):
    """Import a module that imports the function by name."""

    def load():
        module = types.ModuleType("user_of_shop")
        monkeypatch.setitem(sys.modules, "user_of_shop", module)
        exec("from shop_under_test import fetch as get_page", module.__dict__)
        return module

    return load


def test_everything_is_put_back(shop):
    before = dict(vars(shop)), dict(vars(shop.Client)), dict(vars(shop.Other)), shop.fetch_again.__closure__
    inside = [cell.cell_contents for cell in shop.fetch_again.__closure__]
    with inject_faults() as faults:
        for name in ("fetch", "fetch_again", "Client.parse", "Client.make", "Client.get", "Other.get", "client.get"):
            faults.fail(f"shop_under_test.{name}", "network", optional=True)
        faults.fail("after-upload", "network", optional=True)
        assert shop.fetch is not before[0]["fetch"]
        assert points._listeners
    assert (dict(vars(shop)), dict(vars(shop.Client)), dict(vars(shop.Other)), shop.fetch_again.__closure__) == before
    assert [cell.cell_contents for cell in shop.fetch_again.__closure__] == inside
    assert vars(shop.client) == {}
    assert points._listeners == ()


def test_everything_is_put_back_after_an_error(shop):
    before = shop.fetch
    with pytest.raises(KeyError), inject_faults() as faults:
        faults.fail("shop_under_test.fetch", "network")
        raise KeyError
    assert shop.fetch is before


def test_a_module_that_was_imported_meanwhile_gets_the_function_itself(shop, user):
    before = shop.fetch
    with inject_faults() as faults:
        faults.fail("shop_under_test.fetch", "network")
        late = user()
        with pytest.raises(ConnectionResetError):
            late.get_page("a")
    assert late.get_page is before


@pytest.mark.parametrize("owner", ["shop_under_test", "shop_under_test.Client"])
def test_a_fault_that_another_patch_puts_back_lets_calls_through(shop, owner):
    holder, name = (shop, "fetch") if owner == "shop_under_test" else (shop.Client, "parse")
    with pytest.MonkeyPatch.context() as patch, inject_faults() as faults:
        fault = faults.fail(f"{owner}.{name}", "network", optional=True)
        patch.setattr(holder, name, len)
    assert getattr(holder, name)("a") in {"page of a", "A"}
    assert fault.calls == 0


def test_the_next_fault_is_met_wherever_that_function_is_used(shop, user):
    with inject_faults() as faults:
        faults.fail("shop_under_test.fetch", "network", optional=True)
        held = shop.fetch
    shop.fetch = held  # as a patch of the test puts it back
    early = user()
    early.get_page = held.__wrapped__

    with inject_faults() as faults:
        fault = faults.fail("shop_under_test.fetch", "network")
        for call in (early.get_page, shop.fetch):
            with pytest.raises(ConnectionResetError):
                call("a")
    assert (fault.calls, early.get_page("a"), shop.fetch("a")) == (2, "page of a", "page of a")


def test_a_point_that_a_thread_passes_late_lets_it_through():
    with inject_faults() as faults:
        faults.fail("after-upload", "network", optional=True)
        (late,) = points._listeners
    late("after-upload")
    late("after.upload")
    assert faults.all[0].calls == 0


def test_one_that_cannot_be_put_back_keeps_none_of_the_others(shop):
    class Stubborn(type):
        is_fixed = False

        def __setattr__(cls, name, value):
            if Stubborn.is_fixed:
                raise TypeError("fixed")
            super().__setattr__(name, value)

    class Fixed(metaclass=Stubborn):
        def get(self, url):
            return f"page of {url}"

    shop.Fixed, before = Fixed, shop.fetch
    with pytest.raises(TypeError, match="fixed"), inject_faults() as faults:
        faults.fail("shop_under_test.fetch", "network", optional=True)
        faults.fail("shop_under_test.Fixed.get", "network", optional=True)
        faults.fail("after-upload", "network", optional=True)
        Stubborn.is_fixed = True
    assert shop.fetch is before
    assert points._listeners == ()
    assert Fixed().get("a") == "page of a"


def test_one_that_the_test_has_removed_itself_is_gone(shop):
    with inject_faults() as faults:
        faults.fail("shop_under_test.client.get", "network", optional=True)
        del shop.client.get
    assert shop.client.get("a") == "page of a"


def test_one_that_cannot_be_put_everywhere_is_put_nowhere(shop, monkeypatch):
    class Closed(types.ModuleType):
        def __setattr__(self, name, value):
            raise AttributeError("closed")

    closed, before = Closed("closed"), shop.fetch
    vars(closed)["get_page"] = shop.fetch
    monkeypatch.setitem(sys.modules, "closed", closed)
    with inject_faults() as faults, pytest.raises(ConfigError, match="cannot be replaced"):
        faults.fail("shop_under_test.fetch", "network")
    assert shop.fetch is before


def test_no_fault_is_ordered_after_the_end(shop):
    with inject_faults() as faults:
        pass
    for place in ("shop_under_test.fetch", "after-upload"):
        with pytest.raises(ConfigError, match=f"add the one at '{place}' while the test runs"):
            faults.fail(place, outlast.Category.NETWORK)
