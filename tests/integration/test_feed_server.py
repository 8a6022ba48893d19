"""The server that the tests of sources and monitors rely on: its scripts, its counting, its hosts."""

from __future__ import annotations

import asyncio
import threading

import httpx
import httpx2
import pytest

from servers.feeds import Answer, FeedServer


@pytest.fixture(scope="module")
def server():
    with FeedServer() as server:
        yield server


def test_a_script_is_followed_and_its_last_answer_stays(server):
    url = server.script("/script", [503, Answer(body=b"one"), lambda asked: Answer(body=asked.path)])

    with httpx.Client(trust_env=False) as client:
        answers = [client.get(url) for _ in range(4)]

    assert [answer.status_code for answer in answers] == [503, 200, 200, 200]
    assert [answer.text for answer in answers] == ["", "one", "/script", "/script"]
    assert server.count("/script") == 4


def test_requests_of_many_connections_are_counted_exactly():
    with FeedServer() as server:
        server.script("/many", [Answer(body=str(number)) for number in range(2000)])

        async def many():
            limits = httpx2.Limits(max_connections=100)
            async with httpx2.AsyncClient(trust_env=False, limits=limits, timeout=60) as client:
                return await asyncio.gather(*(client.get(server.url("/many?q=1")) for _ in range(2000)))

        answers = asyncio.run(many())

        assert sorted(int(answer.text) for answer in answers) == list(range(2000))
        assert (server.count("/many"), server.count("/many?q=1"), server.count()) == (2000, 2000, 2000)
        assert server.connections <= 100
        assert 1 <= server.most_at_once <= 100


def test_several_hosts_answer_alike(server):
    server.script("/hosts", Answer(body=b"here"))
    with httpx.Client(trust_env=False) as client:
        for number in (1, 2, 3, 77):
            answer = client.get(server.host_url(number, "/hosts"))

            assert (answer.text, answer.url.host) == ("here", f"127.0.0.{number}")
    assert server.count("/hosts") == 4


def test_a_gate_holds_answers_back(server):
    gate = threading.Event()
    url = server.script("/gate", Answer(body=b"through", gate=gate))
    server.forget()

    async def both():
        async with httpx2.AsyncClient(trust_env=False, timeout=30) as client:
            waiting = [asyncio.create_task(client.get(url)) for _ in range(5)]
            while server.count("/gate") < 5:  # noqa: ASYNC110  # counted by threads
                await asyncio.sleep(0.001)
            gate.set()
            return [(await each).text for each in waiting]

    assert asyncio.run(both()) == ["through"] * 5
    assert server.most_at_once == 5


def test_a_connection_serves_many_requests_and_a_fault_ends_one():
    with FeedServer() as server:
        url = server.script("/kept", [200, 200, 200, Answer(fault="close"), 200])
        with httpx.Client(trust_env=False) as client:
            for _ in range(3):
                client.get(url)
            assert server.connections == 1
            with pytest.raises(httpx.TransportError):
                client.get(url)
            client.get(url)
        assert (server.connections, server.count("/kept")) == (2, 5)


def test_a_stall_lasts_until_the_client_leaves(server):
    url = server.script("/stall", Answer(fault="stall"))

    with httpx.Client(trust_env=False, timeout=0.05) as client, pytest.raises(httpx.ReadTimeout):
        client.get(url)


def test_no_path_without_a_script(server):
    with pytest.raises(ValueError, match="needs an answer"):
        server.script("/none", [])
    with pytest.raises(KeyError):
        Answer(fault="unheard of")
    assert httpx.get(server.url("/nowhere"), trust_env=False).status_code == 404
    with pytest.raises(httpx.ConnectError):
        httpx.get(server.dead_url, trust_env=False)
