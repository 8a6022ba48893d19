"""Pipelines of coroutine functions: what is awaited in the async form is refused in the sync one."""

import functools

import anyio
import anyio.lowlevel
import pytest

import outlast
from outlast.errors import ConfigError
from outlast.testing import fake_clock


@pytest.fixture(autouse=True)
def clock():
    with fake_clock() as clock:
        yield clock


def fetch() -> list[int]:
    return [1, 2]


def total(numbers: list[int]) -> int:
    return sum(numbers)


def show(number: int) -> str:
    return f"<{number}>"


def broken_start():
    raise ValueError("start")


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_steps_of_both_kinds_and_an_async_handler(backend):
    @outlast.node(retries=2)
    async def load() -> list[int]:
        await anyio.lowlevel.checkpoint()
        return [4]

    async def fails(number: int) -> int:
        raise ValueError("x")

    async def handler(error, step):
        await anyio.lowlevel.checkpoint()
        return 9

    async def raises(error, step):
        await anyio.lowlevel.checkpoint()
        raise  # noqa: PLE0704  # called inside the except block

    async def main():
        assert await outlast.typed_async_pipeline(load, total, fails, show, on_error=handler) == "<9>"
        with pytest.raises(ValueError, match="x"):
            await outlast.typed_async_pipeline(load, total, fails, on_error=raises)

    anyio.run(main, backend=backend)


def test_cancellation_passes():
    async def slow():
        await anyio.sleep(5)

    async def main():
        with anyio.move_on_after(0.01) as scope:
            await outlast.typed_async_pipeline(slow, on_error=lambda error, step: pytest.fail("asked"))
        return scope.cancelled_caught

    assert anyio.run(main)


def test_a_coroutine_function_in_the_sync_form_is_refused():
    async def load():
        return 1

    with pytest.raises(ConfigError, match="load is a coroutine function; run it with typed_async_pipeline"):
        outlast.typed_pipeline(load, show)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_an_async_on_step_is_awaited(backend, caplog):
    seen = []

    async def hook(step, value):
        await anyio.lowlevel.checkpoint()
        seen.append((step, value))
        if step == "total":
            raise RuntimeError("hook")

    class Hook:
        async def __call__(self, step, value):
            await hook(step, value)

    async def main():
        for each in (hook, Hook(), lambda step, value: hook(step, value)):  # noqa: PLW0108  # hands a coroutine out
            seen.clear()
            assert await outlast.typed_async_pipeline(fetch, total, show, on_step=each) == "<3>"
            assert seen == [("fetch", [1, 2]), ("total", 3), ("show", "<3>")]

    anyio.run(main, backend=backend)
    assert caplog.text.count("on_step failed after total") == 3


def test_cancelling_an_async_on_step_cancels_the_pipeline():
    async def hook(step, value):
        await anyio.sleep(5)

    async def main():
        with anyio.move_on_after(0.01) as scope:
            await outlast.typed_async_pipeline(fetch, total, on_step=hook)
        return scope.cancelled_caught

    assert anyio.run(main)


def test_objects_whose_call_is_a_coroutine_function():
    class Load:
        async def __call__(self) -> list[int]:
            return [1, 2]

    for step in (Load(), functools.partial(Load()), Load().__call__):
        assert anyio.run(outlast.typed_async_pipeline, step, total) == 3
        with pytest.raises(ConfigError, match="is a coroutine function; run it with typed_async_pipeline"):
            outlast.typed_pipeline(step, total)


@pytest.mark.parametrize("hook", ["on_step", "on_error"])
def test_a_hook_that_is_a_coroutine_function_is_refused_in_the_sync_form(hook):
    async def handler(one, other):
        return 1

    with pytest.raises(ConfigError, match=f"{hook} .*handler is a coroutine function; run it with typed_async_pip"):
        outlast.typed_pipeline(fetch, **{hook: handler})


def test_a_coroutine_that_comes_out_of_a_step_is_refused_in_the_sync_form(caplog):
    async def load(*args):
        return 1

    def hands_out(*args):
        return load(*args)

    with pytest.raises(ConfigError, match="hands_out returned a coroutine, which is not awaited here; run it with"):
        outlast.typed_pipeline(hands_out, show, on_error=lambda error, step: pytest.fail("not a step's error"))
    with pytest.raises(ConfigError, match=r"on_error .*returned a coroutine"):
        outlast.typed_pipeline(broken_start, on_error=hands_out)
    assert outlast.typed_pipeline(fetch, total, on_step=hands_out) == 3
    assert "on_step failed after fetch" in caplog.text
