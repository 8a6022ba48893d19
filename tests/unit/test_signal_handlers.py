"""Signal handlers of ours end with their block, and act only in the process that has set them."""

import asyncio
import os
import signal
import sys
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import uvicorn

from outlast.cli.web import _links_on_demand
from outlast.run.signals import run_stopped_by_signals, stop_on_signals
from outlast.web.server import _Uvicorn

FORKS = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")


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


@contextmanager
def _service(acted):
    """A worker or a monitor: it runs on an event loop."""
    loop = asyncio.new_event_loop()
    with stop_on_signals(loop, lambda: acted.append(1), lambda: None):
        yield
        loop.run_until_complete(asyncio.sleep(0.05))
    loop.close()


@contextmanager
def _run(acted):
    run = SimpleNamespace(stopped=False, reader=0)
    with run_stopped_by_signals(run):
        yield
        acted += [1] * run.stopped


@contextmanager
def _run_in_service(acted):
    with _service(acted), _run(acted):
        yield


@contextmanager
def _web_server(acted):
    server = _Uvicorn(uvicorn.Config(lambda: None), lambda: None)
    with server.capture_signals():
        yield
        acted += [1] * server.should_exit


def _end_of_child(number):
    """Fork a child that sends itself a signal; return the signal that ended it, 0 if none did."""
    sys.stdout.flush()
    if child := os.fork():
        _, status = os.waitpid(child, 0)
        return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    try:
        os.kill(os.getpid(), number)
    finally:
        os._exit(0)


@FORKS
@pytest.mark.parametrize("installed", [_service, _run, _run_in_service, _web_server])
def test_a_signal_ends_a_forked_child_and_not_its_parent(number, installed):
    acted = []
    signal.signal(number, signal.SIG_DFL)

    with installed(acted):
        assert _end_of_child(number) == number
    assert acted == []

    with installed(acted):
        os.kill(os.getpid(), number)
    assert acted, "the handler of the parent is still there"


@FORKS
def test_the_signal_for_a_link_ends_a_forked_child(capsys):
    links = []
    server = SimpleNamespace(has_links=True, link=lambda: links.append(1))
    with _links_on_demand(server):
        assert _end_of_child(signal.SIGUSR1) == signal.SIGUSR1
        assert links == []
        os.kill(os.getpid(), signal.SIGUSR1)
    assert links == [1]


@FORKS
def test_a_forked_child_stops_its_own_run_and_then_has_the_handlers_from_before(number):
    signal.signal(number, signal.SIG_DFL)
    with run_stopped_by_signals(SimpleNamespace(stopped=False, reader=0)):
        if child := os.fork():
            _, status = os.waitpid(child, 0)
        else:
            with run_stopped_by_signals(run := SimpleNamespace(stopped=False, reader=0)):
                os.kill(os.getpid(), number)
            os._exit(7 if run.stopped and signal.getsignal(number) == signal.SIG_DFL else 1)
    assert os.waitstatus_to_exitcode(status) == 7
    assert signal.getsignal(number) == signal.SIG_DFL
