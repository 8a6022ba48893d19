"""The same fault means the same, whichever HTTP client reports it (pitfall 29)."""

from __future__ import annotations

import pytest

from corpus.http_clients import Ask, error_of
from corpus.http_faults import FAULTS, LIBRARIES, STATUSES
from outlast import classify
from servers.faults import FaultServer


@pytest.fixture(scope="module")
def server():
    server = FaultServer()
    server.start()
    yield server
    server.stop()


def verdict_of(client, ask):
    failure = classify(error_of(client, ask))
    return failure.category, failure.retryable


@pytest.mark.parametrize("fault", [pytest.param(fault, id=fault.name) for fault in FAULTS])
def test_a_fault_means_the_same_to_every_client(fault, server):
    clients = [client for client in LIBRARIES if client in fault.clients]

    verdicts = {client: verdict_of(client, fault.ask(server)) for client in clients}

    assert len(clients) > 2
    assert len(set(verdicts.values())) == 1, verdicts


@pytest.mark.parametrize("status", STATUSES)
def test_a_status_means_the_same_to_every_client(status, server):
    clients = ("httpx", "httpx2", "requests", "urllib3-retry", "aiohttp")

    verdicts = {client: verdict_of(client, Ask(server.answer(status))) for client in clients}

    assert len(set(verdicts.values())) == 1, verdicts
