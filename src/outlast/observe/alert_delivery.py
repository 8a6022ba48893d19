"""What notifications write to the log, under ``outlast.notify``. A handler that raises disturbs nothing."""

import logging
import math
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import timedelta

from outlast import clock
from outlast.classify import classify
from outlast.decide.backoff import check_seconds
from outlast.decide.policy import RetryPolicy
from outlast.errors import ConfigError
from outlast.failure import RETRYABLE, Category, Failure
from outlast.observe.channels import Channel
from outlast.observe.messages import compose
from outlast.ports.source_rows import Alert, AlertResult, Alerts
from outlast.record.log_text import failure_keys, first_line, format_seconds

__all__ = ["DELIVERY_POLICY", "GIVE_UP_AFTER", "GIVE_UP_DELIVERIES", "Deliverer"]


log = logging.getLogger("outlast.notify")


def log_line(level: int, text: str, /, *args: object, **keys: object) -> None:
    """Write a line."""
    with suppress(Exception):
        log.log(level, text, *args, extra=keys)


def log_failure(level: int, what: str, failure: Failure, /, **keys: object) -> None:
    """Write a line about a failure, with the keys that every log of a failure has."""
    log_line(
        level,
        "%s (%s): %s: %s",
        what,
        failure.category.value,
        failure.exception_name,
        first_line(failure.message),
        **failure_keys(failure),
        **keys,
    )


# One delivery, channel by channel: each has a lane of its own, and one that waits for its retry holds up no other.

HINT_LIMIT = 30.0
"""Seconds that a channel may ask to wait within one delivery; who asks for more is left for a later one."""
_WAIT_STEP = 0.5  # seconds of a wait after which is looked whether it is to end
# A message may be refused for what it says; every other failure is the channel's, and the next message would fail too.
_MESSAGE_CATEGORIES = {Category.INVALID_PARAMETERS, Category.DATA, Category.UNKNOWN}


class ChannelQueue:
    """What one channel is sent in one delivery: one message after the other, each tried again where that may help.

    Args:
        channel: Where they go.
        alerts: What is told.
        policy: How often, and after which waits.
        until: When no further try is begun, by the monotonic clock.

    Attributes:
        due: When the next message is to be tried.
        sent: Numbers of the alerts that are delivered.
        failed: Why those could not be that were given up, by number.
    """

    def __init__(self, channel: Channel, alerts: Sequence[Alert], policy: RetryPolicy, until: float) -> None:
        """Begin with everything to be sent."""
        self.channel, self.policy, self.until = channel, policy, until
        self.due = clock.monotonic()
        self.sent: set[int] = set()
        self.failed: dict[int, Failure] = {}
        self._waiting = deque(compose(alerts))
        self._tries = 0
        self._last: Failure | None = None  # of the message that is tried

    @property
    def open(self) -> bool:
        """Whether there is something left to send."""
        return bool(self._waiting)

    def step(self) -> None:
        """Try the next message once."""
        message, alerts = self._waiting[0]
        self._tries += 1
        try:
            self.channel.send(message)
        except BaseException as error:  # whatever a channel raises concerns nobody else, a CancelledError neither
            if _is_shutdown(error):
                raise
            self._decide(error)
        else:
            self.sent.update(alert.id for alert in alerts)
            self._next()

    def _next(self) -> None:
        self._waiting.popleft()
        self._tries, self._last = 0, None

    def _decide(self, error: BaseException) -> None:
        failure, name = classify(error), self.channel.name
        wait = self._wait(error, failure)
        if wait is not None:
            self._last = failure
            self.due = clock.monotonic() + wait
            what = f"{name}: try {self._tries} of {self.policy.max_attempts} failed, again in {format_seconds(wait)}"
            log_failure(logging.WARNING, what, failure, channel=name, attempt=self._tries, delay=wait)
        elif failure.category in _MESSAGE_CATEGORIES and len(self._waiting[0][1]) > 1:
            self._split_digest(failure)
        else:
            self._give_up(failure)

    def _split_digest(self, failure: Failure) -> None:
        """Go on with the alerts of a digest one by one, so that the one which is refused takes no other with it."""
        alerts = self._waiting[0][1]
        what = f"{self.channel.name}: a digest was refused, its {len(alerts)} alerts are sent one by one"
        log_failure(logging.WARNING, what, failure, channel=self.channel.name, attempt=self._tries)
        self._next()
        self._waiting.extendleft(reversed(compose(alerts, digest_at=len(alerts) + 1)))

    def close(self) -> None:
        """Begin no further try: what has failed is given up, what had no turn is left as it was."""
        if self._last is not None:
            self._give_up(self._last)

    def _give_up(self, failure: Failure) -> None:
        name, times = self.channel.name, "once" if self._tries == 1 else f"{self._tries} times"
        what = f"{name}: a notification was not delivered, tried {times}"
        log_failure(logging.ERROR, what, failure, channel=name, attempt=self._tries)
        alone = failure.category in _MESSAGE_CATEGORIES
        for _, alerts in [self._waiting[0]] if alone else list(self._waiting):
            self.failed.update((alert.id, failure) for alert in alerts)
            self._next()

    def _wait(self, error: BaseException, failure: Failure) -> float | None:
        """Return the seconds until the next try; None for no more in this delivery."""
        asked = failure.retry_after
        if not self.policy.should_retry(error, self._tries) or (asked is not None and asked > HINT_LIMIT):
            return None
        wait = self.policy.delay_after(failure, self._tries, chance=clock.chance)
        return None if clock.monotonic() + wait >= self.until else wait


def _is_shutdown(error: BaseException) -> bool:
    """Tell Ctrl-C and the end that a signal asks for, which come in the main thread alone, from a channel's trouble."""
    asked = isinstance(error, KeyboardInterrupt | SystemExit)
    return asked and threading.current_thread() is threading.main_thread()


def send_queues(lanes: Sequence[ChannelQueue], stopping: Callable[[], bool]) -> None:
    """Send what the lanes hold, whichever is due first: to the end, or until time is over or it is to stop."""
    while waiting := [lane for lane in lanes if lane.open]:
        lane = min(waiting, key=lambda each: each.due)
        while not stopping() and (left := lane.due - clock.monotonic()) > 0:
            clock.sleep(min(left, _WAIT_STEP))
        if stopping() or clock.monotonic() >= lane.until:
            break
        lane.step()
    for lane in lanes:
        lane.close()


# The courier: takes alerts out of the outbox and brings them to people, whatever happens on the way.

DELIVERY_POLICY = RetryPolicy(max_attempts=3, retry_on=RETRYABLE, backoff="exponential", base_delay=1.0, max_delay=30.0)
"""Within one delivery: three tries, after 1 s and 2 s."""
GIVE_UP_AFTER = 86400.0
"""Seconds: an alert that is younger is never given up."""
GIVE_UP_DELIVERIES = 30
"""Deliveries: an alert that was tried less often is never given up. With the waits between them they take a day."""
FIRST_WAIT, LONGEST_WAIT = 60.0, 3600.0
"""Seconds between two deliveries of an alert: the first wait, which doubles, and the longest."""
_BATCH = 500  # alerts of one delivery
_MAINTENANCE_EVERY = 60.0  # seconds between two looks for reminders and for what is old
_LOG_EVERY = 60.0  # seconds between two lines about a store that is down
_STOP = 5.0  # seconds for what is being sent when it is to stop
_SENDING_SHARE = 2 / 3  # of the lease: after that no try is begun, so that nobody else has taken the alerts meanwhile
_ERROR_LIMIT = 500


class Deliverer:
    """Delivers alerts, in a thread of its own or one delivery at a time.

    At least once: an alert is done with when the store has been told that it was sent. A process that dies between the
    two leads to a second message, never to none. `delivered_to` keeps a channel that has a message from getting it
    again because another channel failed.

    Within one delivery a message is tried three times, and what a channel asks to wait is honoured up to 30 s. After
    that the alert waits, 1 minute at first and 1 hour at most. After 30 deliveries, which take a day, it is given up;
    the age alone says nothing, as the program may have been down, and clocks jump. A digest that is refused for what
    it says is sent again as single messages. A channel that fails is logged under ``outlast.notify``; nothing is
    raised.

    Args:
        store: Where the outbox is.
        channels: Where alerts go. With none they are logged as warnings, and done with.
        policy: Tries and waits within one delivery.
        every: Seconds between two looks into the outbox.
        remind_after: Seconds after which people are told again of what is still not well.
        keep: Seconds for which alerts that are done with are kept.
        lease: Seconds for which alerts are in this courier's hands; after that another one takes them.

    Raises:
        ConfigError: If two channels have the same name, or a time is none.
    """

    def __init__(
        self,
        store: Alerts,
        channels: Sequence[Channel],
        *,
        policy: RetryPolicy = DELIVERY_POLICY,
        every: float | timedelta = 1.0,
        remind_after: float | timedelta = timedelta(days=7),
        keep: float | timedelta = timedelta(days=30),
        lease: float | timedelta = 120.0,
    ) -> None:
        """Begin without a thread."""
        self.store, self.channels, self.policy = store, tuple(channels), policy
        self.every = check_seconds("every", every)
        self.remind_after = check_seconds("remind_after", remind_after)
        self.keep = check_seconds("keep", keep)
        self.lease = check_seconds("lease", lease)
        names = [channel.name for channel in self.channels]
        for name in names:
            if names.count(name) > 1:
                message = f"two channels are called {name}; each needs a name of its own, or one of them gets nothing"
                raise ConfigError(message)
        self._unsettled: list[AlertResult] = []
        self._unsettled_until = 0.0
        self._delivery_lock = threading.Lock()
        self._awake, self._stopping = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self._store_error_logged_at: float | None = None
        self._maintenance_at = -math.inf

    @property
    def running(self) -> bool:
        """Whether its thread runs."""
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> None:
        """Start the thread; a second call changes nothing."""
        if self.running:
            return
        self._thread = threading.Thread(target=self._run, args=(self._stopping,), name="outlast-courier", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread. What is being sent is finished, for 5 s at most; the rest stays in the outbox."""
        thread, self._thread = self._thread, None
        self._stopping.set()
        self._awake.set()
        if thread is not None and thread is not threading.current_thread():
            thread.join(_STOP)
            if thread.is_alive():
                log_line(logging.WARNING, "a notification was still being sent; it may be sent a second time")
        self._stopping = threading.Event()

    def wake(self) -> None:
        """Have the thread look now."""
        self._awake.set()

    def deliver(self) -> int:
        """Make one delivery: take what is due, send it, and note what became of it.

        Once a minute, and the first time, it also raises the reminders that are due and removes what is old.

        Returns:
            How many alerts were taken.

        Raises:
            Exception: What the store raises. What was sent by then is noted by the next delivery.
            KeyboardInterrupt: In the main thread, on Ctrl-C; what was sent by then is noted.
            SystemExit: As above, where a signal or a channel ends the program.
        """
        with self._delivery_lock:
            self._run_maintenance()
            self._settle()
            alerts = self.store.claim_alerts(_BATCH, self.lease)
            if alerts:
                self._unsettled_until = clock.monotonic() + self.lease
                if self.channels:
                    self._send(alerts)
                else:
                    self._unsettled = _log_alerts(alerts)
                self._settle()
            return len(alerts)

    def _run_maintenance(self) -> None:
        """Remind and tidy up; where that fails, alerts are delivered all the same, also by a cron that begins anew."""
        if clock.monotonic() < self._maintenance_at:
            return
        self._maintenance_at = clock.monotonic() + _MAINTENANCE_EVERY
        try:
            self.store.remind_alerts(self.remind_after)
        except Exception as error:  # noqa: BLE001  # see above
            self._complain("reminders could not be raised, tried again", error)
        try:
            self.store.prune_alerts(self.keep)
        except Exception as error:  # noqa: BLE001  # see above
            self._complain("old alerts could not be removed, tried again", error)

    def _settle(self) -> None:
        """Note what became of the last delivery, also where the store could not take it at once."""
        if not self._unsettled:
            return
        try:
            self.store.settle_alerts(self._unsettled)
        except Exception:
            if clock.monotonic() >= self._unsettled_until:
                self._unsettled = []  # the lease is over: they are due again, and what cannot be noted stops nothing
            raise
        self._unsettled = []

    def _send(self, alerts: Sequence[Alert]) -> None:
        until = clock.monotonic() + self.lease * _SENDING_SHARE
        lanes = [
            ChannelQueue(each, [alert for alert in alerts if each.name not in alert.delivered_to], self.policy, until)
            for each in self.channels
        ]
        try:
            send_queues(lanes, self._stopping.is_set)
        except BaseException:  # it is to end here: who has a message by now shall not get it again
            self._unsettled = [self._result(alert, lanes) for alert in alerts]
            with suppress(Exception):
                self._settle()
            raise
        self._unsettled = [self._result(alert, lanes) for alert in alerts]

    def _result(self, alert: Alert, lanes: Sequence[ChannelQueue]) -> AlertResult:
        got = [lane.channel.name for lane in lanes if alert.id in lane.sent]
        having = (*alert.delivered_to, *got)
        failures = {lane.channel.name: lane.failed[alert.id] for lane in lanes if alert.id in lane.failed}
        if all(lane.channel.name in having for lane in lanes):
            return AlertResult(alert.id, alert.epoch, having, None)
        if not failures:  # stopped before its turn came
            return AlertResult(alert.id, alert.epoch, having, 0.0)
        error = "; ".join(f"{name}: {failure}" for name, failure in failures.items())[:_ERROR_LIMIT]
        if alert.deliveries < GIVE_UP_DELIVERIES or clock.now() - alert.created_at.timestamp() < GIVE_UP_AFTER:
            return AlertResult(alert.id, alert.epoch, having, _next_delay(alert, failures.values()), error)
        for name, failure in failures.items():
            what = f"{name}: alert {alert.id} ({alert.key}) is given up after {alert.deliveries} deliveries"
            log_failure(logging.ERROR, what, failure, channel=name, alert_id=alert.id, key=alert.key)
        return AlertResult(alert.id, alert.epoch, having, None, error)

    def _run(self, stopping: threading.Event) -> None:
        while not stopping.is_set():
            self._awake.clear()
            taken = 0
            try:
                taken = self.deliver()
            except BaseException as error:  # noqa: BLE001  # nothing ends the thread
                self._complain("the store cannot be asked for alerts, tried again", error)
            if not taken and not stopping.is_set():  # else there may be more, as the next alert of the same key
                self._awake.wait(self.every)

    def _complain(self, what: str, error: BaseException) -> None:
        """Tell of a store that is down, now and then."""
        now = clock.monotonic()
        if self._store_error_logged_at is None or now - self._store_error_logged_at >= _LOG_EVERY:
            self._store_error_logged_at = now
            log_failure(logging.ERROR, what, classify(error))


def _next_delay(alert: Alert, failures: Iterable[Failure]) -> float:
    """Return the seconds until the next delivery: doubling, and not before a channel wants to be asked again."""
    own = FIRST_WAIT * 2.0 ** min(max(alert.deliveries - 1, 0), 10)
    return min(LONGEST_WAIT, max([own, *(failure.retry_after or 0.0 for failure in failures)]))


def _log_alerts(alerts: Sequence[Alert]) -> list[AlertResult]:
    """Tell alerts in the log, where there is no other channel."""
    for message, (alert,) in compose(alerts, digest_at=len(alerts) + 2):
        log_line(logging.WARNING, "alert: %s", message.title, alert_id=alert.id, key=alert.key, text=message.text)
    return [AlertResult(alert.id, alert.epoch, alert.delivered_to, None) for alert in alerts]
