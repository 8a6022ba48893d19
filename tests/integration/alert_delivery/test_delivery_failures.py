"""The courier in trouble: what a channel or the store does ends nothing, and loses no alert."""

import asyncio
import logging
import signal
import subprocess
import sys
import threading

import pytest

from integration.delivery_scenes import (
    MINUTE,
    SECRET,
    Dead,
    Failing,
    Noting,
    done,
    errors_in,
    news,
    waiting,
)
from outlast.errors import NetworkError
from outlast.observe.alert_delivery import Deliverer
from outlast.stores.sqlite.store import SqliteStore
from outlast.testing import fake_clock
from servers.webhooks import Reply


def test_an_outage_of_a_channel_costs_three_tries_however_many_messages_wait(store, time):
    dead = Dead()
    store.raise_alerts([news("a"), news("b"), news("c")])
    Deliverer(store, [dead]).deliver()
    assert len(dead.tried) == 3
    assert len(waiting(store)) == 3


def test_a_message_that_is_refused_holds_up_no_other(store, time):
    picky = Noting("picky", ValueError("not this one"))
    store.raise_alerts([news("a"), news("b")])
    Deliverer(store, [picky]).deliver()
    assert picky.got == ["b is disabled"]
    assert [alert.key for alert in waiting(store)] == ["a"]


@pytest.mark.parametrize(
    "error", [RuntimeError("boom"), asyncio.CancelledError(), GeneratorExit(), MemoryError(), NetworkError("no")]
)
def test_nothing_is_raised_when_everything_fails(error, store, time, caplog):
    """B5, pitfall 64."""
    caplog.set_level(logging.DEBUG)
    courier = Deliverer(store, [Dead("one", error), Dead("two", error)])
    store.raise_alerts([news()])
    assert courier.deliver() == 1
    assert {record.channel for record in errors_in(caplog)} == {"one", "two"}
    assert len(waiting(store)) == 1


@pytest.mark.parametrize("ending", [KeyboardInterrupt, SystemExit])
def test_ctrl_c_ends_a_delivery_and_what_was_sent_is_noted(ending, store, time):
    stopped = Noting("stopped", None, ending())
    store.raise_alerts([news("a"), news("b")])
    with pytest.raises(ending):
        Deliverer(store, [stopped]).deliver()
    assert [alert.key for alert in done(store)] == ["a"]
    assert Deliverer(store, [stopped]).deliver() == 1, "what had no turn is due at once"
    assert stopped.got == ["a is disabled", "b is disabled"]


def test_one_alert_that_is_refused_takes_no_digest_with_it(store, server, slack, time):
    refused = Reply(400, body=b"invalid_blocks")
    server.script(refused, Reply(200), refused, Reply(200), Reply(200), Reply(200))
    store.raise_alerts([news(key) for key in "abcde"])
    Deliverer(store, [slack]).deliver()
    assert [alert.key for alert in waiting(store)] == ["b"]
    assert len(server.requests) == 6
    assert [key for key in "abcde" if f"{key} is disabled".encode() in server.requests[-1].body] == ["e"]
    time.advance(MINUTE + 1)
    Deliverer(store, [slack]).deliver()
    assert (len(server.requests), waiting(store)) == (7, [])


def test_a_digest_that_fails_for_the_channels_sake_is_not_taken_apart(store, server, slack, time):
    server.script(Reply(404, body=b"no_service"))
    store.raise_alerts([news(key) for key in "abcde"])
    Deliverer(store, [slack]).deliver()
    assert (len(server.requests), len(waiting(store))) == (1, 5)


def test_a_log_handler_that_raises_disturbs_nothing(store, time):
    class Broken(logging.Handler):
        def handle(self, record):
            raise RuntimeError("no log")

    log, handler = logging.getLogger("outlast.notify"), Broken()
    log.addHandler(handler)
    try:
        store.raise_alerts([news()])
        Deliverer(store, [Dead()]).deliver()
    finally:
        log.removeHandler(handler)
    assert "gone" in waiting(store)[0].last_error


def test_what_the_store_could_not_note_is_noted_by_the_next_delivery(store, time):
    """A short outage of the store leads to no second message."""
    noting = Noting()
    failing = Failing(store, settle_alerts=[ConnectionError("down")])
    courier = Deliverer(failing, [noting])
    store.raise_alerts([news()])
    with pytest.raises(ConnectionError):
        courier.deliver()
    time.advance(10)
    assert courier.deliver() == 0
    assert (noting.got, waiting(store)) == (["source:1 is disabled"], [])


def test_a_process_that_dies_before_it_could_note_leads_to_a_second_message(store, time):
    noting = Noting()
    store.raise_alerts([news()])
    with pytest.raises(ConnectionError):
        Deliverer(Failing(store, settle_alerts=[ConnectionError("killed")]), [noting]).deliver()
    heir = Deliverer(store, [noting])
    assert heir.deliver() == 0, "the lease of the dead one runs"
    time.advance(121)
    assert heir.deliver() == 1
    assert noting.got == ["source:1 is disabled"] * 2


@pytest.mark.parametrize("chore", ["remind_alerts", "prune_alerts"])
def test_a_chore_that_fails_holds_up_no_delivery(chore, store, time, caplog):
    """Each call by cron is a first one: it would never get further."""
    noting = Noting()
    store.raise_alerts([news()])
    assert Deliverer(Failing(store, **{chore: [ConnectionError("down")]}), [noting]).deliver() == 1
    assert noting.got == ["source:1 is disabled"]
    (line,) = errors_in(caplog)
    assert "retrying" in line.getMessage()


def test_what_the_store_never_notes_stops_nothing(store, time):
    """When the lease is over the alert is due again, so the courier goes on instead of insisting."""
    noting = Noting()
    courier = Deliverer(Failing(store, settle_alerts=[ValueError("refused")] * 3), [noting])
    store.raise_alerts([news()])
    for _ in range(3):
        with pytest.raises(ValueError, match="refused"):
            courier.deliver()
        time.advance(100)
    assert courier.deliver() == 1
    assert (len(noting.got), waiting(store)) == (2, [])


_KILLED = """
import os, signal, sys
from outlast.observe.channels import channel
from outlast.observe.alert_delivery import Deliverer
from outlast.stores.sqlite.store import SqliteStore

path, url, when = sys.argv[1:]
slack = channel(url, allow_private=True)

class Killed:
    name = slack.name
    def send(self, message):
        if when == "after":
            slack.send(message)
        os.kill(os.getpid(), signal.SIGKILL)

Deliverer(SqliteStore(path), [Killed()]).deliver()
"""


@pytest.mark.parametrize(("when", "messages"), [("before", 1), ("after", 2)])
def test_a_courier_that_is_killed_leads_to_a_second_message_never_to_none(when, messages, tmp_path, server, slack):
    """SIGKILL before or after sending: at least once."""
    store = SqliteStore(tmp_path / "outlast.db")
    store.create_schema()
    store.raise_alerts([news()])
    arguments = [str(tmp_path / "outlast.db"), f"slack+{server.url(SECRET)}", when]
    killed = subprocess.run([sys.executable, "-c", _KILLED, *arguments], check=False, timeout=60)
    assert killed.returncode == -signal.SIGKILL
    with fake_clock() as moving:
        heir = Deliverer(store, [slack])
        assert heir.deliver() == 0, "the lease of the killed one runs"
        moving.advance(121)
        assert heir.deliver() == 1
        assert heir.deliver() == 0
    assert len(server.requests) == messages
    assert [alert.delivered_to for alert in done(store)] == [(slack.name,)]
    store.close()


def test_two_couriers_share_the_outbox(store):
    noting = Noting()
    store.raise_alerts([news(f"source:{number}") for number in range(3)])
    one, two = Deliverer(store, [noting]), Deliverer(store, [noting])
    threads = [threading.Thread(target=each.deliver) for each in (one, two)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(noting.got) == [f"source:{number} is disabled" for number in range(3)]
