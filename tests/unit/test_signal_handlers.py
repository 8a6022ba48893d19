"""SIGTERM and SIGINT go back to whoever had them before."""

import asyncio
import os
import signal

import pytest

from outlast.run.signals import stop_on_signals


@pytest.fixture(params=[signal.SIGTERM, signal.SIGINT])
def number(request):
    before = signal.getsignal(request.param)
    yield request.param
    signal.signal(request.param, before)


def test_within_the_block_they_are_ours_and_then_the_programs_own_again(number):
    mine, first = [], []

    async def main():
        signal.signal(number, lambda *_: mine.append(1))
        with stop_on_signals(asyncio.get_running_loop(), lambda: first.append(1), lambda: None):
            os.kill(os.getpid(), number)
            while not first:  # noqa: ASYNC110  # a signal tells
                await asyncio.sleep(0.01)
        assert mine == []
        os.kill(os.getpid(), number)
        await asyncio.sleep(0)

    asyncio.run(main())
    assert (mine, first) == ([1], [1])


def test_what_was_ignored_is_ignored_again(number):
    signal.signal(number, signal.SIG_IGN)

    async def main():
        with stop_on_signals(asyncio.get_running_loop(), lambda: None, lambda: None):
            pass

    asyncio.run(main())
    assert signal.getsignal(number) == signal.SIG_IGN


def test_a_handler_of_the_loops_is_not_left_without_the_loop(number):
    async def main():
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(number, lambda: None)
        with stop_on_signals(loop, lambda: None, lambda: None):
            pass

    signal.signal(number, signal.SIG_DFL)
    asyncio.run(main())
    assert signal.getsignal(number) in {signal.SIG_DFL, signal.default_int_handler}, "it would ignore the signal"
