"""A courier's surroundings: a store, a webhook, a clock and a channel."""

import pytest

from integration.delivery_scenes import SECRET, new_store
from outlast.observe.channels import channel
from outlast.testing import fake_clock
from servers.webhooks import WebhookServer


@pytest.fixture
def store(tmp_path):
    made = new_store(tmp_path)
    yield made
    made.close()


@pytest.fixture
def server():
    with WebhookServer() as running:
        yield running


@pytest.fixture
def time():
    with fake_clock() as moving:
        yield moving


@pytest.fixture
def slack(server):
    return channel(f"slack+{server.url(SECRET)}", allow_private=True)
