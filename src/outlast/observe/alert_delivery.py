"""Delivery of alerts from the outbox to the channels, with retries per channel and at-least-once semantics."""

import logging
import math
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import NamedTuple

from outlast import clock
from outlast.classify import classify, failure_of
from outlast.decide.backoff import check_seconds
from outlast.decide.decision import DecisionState, Retry, decide
from outlast.decide.policy import RetryPolicy
from outlast.errors import ConfigError
from outlast.failure import RETRYABLE, Category, Failure, first_line
from outlast.observe.channels import Channel
from outlast.observe.messages import compose
from outlast.ports.source_rows import Alert, AlertResult, Alerts
from outlast.run.report import report_counter, was_retried_inside
from outlast.units import format_seconds

log = logging.getLogger("outlast.notify")


def log_line(level: int, text: str, /, *args: object, **keys: object) -> None:
    """Log a line. A log handler that raises must not stop the delivery."""
    with suppress(Exception):
        log.log(level, text, *args, extra=keys)


def log_failure(level: int, what: str, failure: Failure, /, **keys: object) -> None:
    """Log a failure with the keys that every failure record has."""
    log_line(
        level,
        "%s (%s): %s: %s",
        what,
        failure.category.value,
        failure.exception_name,
        first_line(failure.message),
        **failure.log_keys(),
        **keys,
    )


HINT_LIMIT = 30.0
"""Seconds a channel may ask to wait within one delivery. If it asks for more, the alert waits for a later delivery."""
_WAIT_STEP = 0.5  # seconds between two checks for a stop while waiting
# These failures may be due to the message itself. Any other is due to the channel, and the next message would fail too.
_MESSAGE_CATEGORIES = {Category.INVALID_PARAMETERS, Category.DATA, Category.UNKNOWN}


class ChannelQueue:
    """The messages for one channel in one delivery, sent in order and retried where that may help.

    Each channel has its own queue, so that a channel that waits for a retry does not hold up the others.

    Args:
        channel: Where the messages go.
        alerts: The alerts to send.
        policy: Number of attempts and the waits between them.
        until: Time on the monotonic clock after which no attempt starts.
        dashboard: URL of the dashboard, for links; empty if unknown.

    Attributes:
        due: Time of the next attempt, on the monotonic clock.
        sent: Ids of the delivered alerts.
        failed: The failures of the alerts that were given up, by alert id.
    """

    def __init__(
        self, channel: Channel, alerts: Sequence[Alert], policy: RetryPolicy, until: float, *, dashboard: str = ""
    ) -> None:
        self.channel, self.policy, self.until, self._dashboard = channel, policy, until, dashboard
        self.due = clock.monotonic()
        self.sent: set[int] = set()
        self.failed: dict[int, Failure] = {}
        self._waiting = deque(compose(alerts, dashboard=dashboard))
        self._attempts = 0
        self._waited: float | None = None  # seconds before the last attempt of the current message
        self._last: Failure | None = None  # of the current message

    @property
    def has_messages(self) -> bool:
        """Whether messages are left to send."""
        return bool(self._waiting)

    def send_next(self) -> None:
        """Make one attempt to send the next message."""
        message, alerts = self._waiting[0]
        self._attempts += 1
        reports = report_counter.last
        try:
            self.channel.send(message)
        except BaseException as error:  # a channel may raise anything; a CancelledError must not stop the others
            if _is_shutdown(error):
                raise
            self._decide(error, nested=was_retried_inside(error, reports))
        else:
            self.sent.update(alert.id for alert in alerts)
            self._next()

    def _next(self) -> None:
        self._waiting.popleft()
        self._attempts, self._waited, self._last = 0, None, None

    def _decide(self, error: BaseException, *, nested: bool) -> None:
        failure, name = failure_of(error).settled(), self.channel.name
        wait = self._wait_seconds(error, failure, nested=nested)
        if wait is not None:
            self._last, self._waited = failure, wait
            self.due = clock.monotonic() + wait
            attempt = f"attempt {self._attempts} of {self.policy.max_attempts}"
            what = f"{name}: {attempt} failed, retrying in {format_seconds(wait)}"
            log_failure(logging.WARNING, what, failure, channel=name, attempt=self._attempts, delay=wait)
        elif failure.category in _MESSAGE_CATEGORIES and len(self._waiting[0][1]) > 1:
            self._split_digest(failure)
        else:
            self._give_up(failure)

    def _split_digest(self, failure: Failure) -> None:
        """Send the alerts of a digest one by one, so that the refused one does not hold back the others."""
        alerts = self._waiting[0][1]
        what = f"{self.channel.name}: a digest was refused, sending its {len(alerts)} alerts one by one"
        log_failure(logging.WARNING, what, failure, channel=self.channel.name, attempt=self._attempts)
        self._next()
        self._waiting.extendleft(reversed(compose(alerts, digest_at=len(alerts) + 1, dashboard=self._dashboard)))

    def close(self) -> None:
        """Stop sending: give up the message whose attempts failed, and leave the messages that were not tried."""
        if self._last is not None:
            self._give_up(self._last)

    def _give_up(self, failure: Failure) -> None:
        name, times = self.channel.name, "once" if self._attempts == 1 else f"{self._attempts} times"
        what = f"{name}: an alert was not delivered, tried {times}"
        log_failure(logging.ERROR, what, failure, channel=name, attempt=self._attempts)
        is_message_at_fault = failure.category in _MESSAGE_CATEGORIES
        for _, alerts in [self._waiting[0]] if is_message_at_fault else list(self._waiting):
            self.failed.update((alert.id, failure) for alert in alerts)
            self._next()

    def _wait_seconds(self, error: BaseException, failure: Failure, *, nested: bool) -> float | None:
        """Return the seconds until the next attempt; None if there is no further one in this delivery."""
        state = DecisionState(
            attempt=self._attempts,
            previous=self._waited,
            nested=nested,
            time_left=max(0.0, self.until - clock.monotonic()),
            patience=HINT_LIMIT,
            chance=clock.chance,
            on_broken=lambda what, mistake: log_failure(logging.ERROR, f"{what} raised", classify(mistake)),
        )
        state.ask_policy(self.policy, error, failure)
        decision = decide(failure, self.policy, state)
        return decision.delay if isinstance(decision, Retry) else None


def _is_shutdown(error: BaseException) -> bool:
    """Whether an error ends the program: only the main thread gets Ctrl-C and signals; a channel may raise the same."""
    ends_program = issubclass(type(error), KeyboardInterrupt | SystemExit)
    return ends_program and threading.current_thread() is threading.main_thread()


def send_queues(queues: Sequence[ChannelQueue], stopping: Callable[[], bool]) -> None:
    """Send the messages of all queues, earliest due first, until none is left, the time is up or `stopping` is true."""
    while waiting := [queue for queue in queues if queue.has_messages]:
        queue = min(waiting, key=lambda each: each.due)
        while not stopping() and (left := queue.due - clock.monotonic()) > 0:
            clock.sleep(min(left, _WAIT_STEP))
        if stopping() or clock.monotonic() >= queue.until:
            break
        queue.send_next()
    for queue in queues:
        queue.close()


DELIVERY_POLICY = RetryPolicy(max_attempts=3, retry_on=RETRYABLE, backoff="exponential", base_delay=1.0, max_delay=30.0)
"""Retries within one delivery: three attempts, with waits of 1 s and 2 s."""
GIVE_UP_AFTER = 86400.0
"""Seconds. A younger alert is never given up."""
GIVE_UP_DELIVERIES = 30
"""An alert with fewer deliveries is never given up. With the waits between them, so many deliveries take a day."""
FIRST_WAIT, LONGEST_WAIT = 60.0, 3600.0
"""Seconds between two deliveries of an alert: the first wait, which doubles each time, and the longest."""
LOG_CHANNEL = "log"
"""The name under which alerts that were only logged are recorded as delivered."""
_BATCH = 500  # alerts of one delivery
_MAINTENANCE_EVERY = 60.0  # seconds between two rounds of reminders and pruning
_LOG_EVERY = 60.0  # seconds between two lines about a store that is down
_STOP = 5.0  # seconds that `stop` waits for the message being sent
_SENDING_SHARE = 2 / 3  # of the lease; no attempt starts later, when another process may claim the alerts
_ERROR_LIMIT = 500  # characters


class AlertTargets(NamedTuple):
    """Where alerts go, and how they are sent.

    Attributes:
        channels: The channels.
        dashboard: URL of the dashboard, for links in messages; empty if unknown.
        policy: Attempts and waits within one delivery.
    """

    channels: tuple[Channel, ...]
    dashboard: str = ""
    policy: RetryPolicy = DELIVERY_POLICY


class Deliverer:
    """Delivers alerts, in a background thread or one delivery at a time.

    Delivery is at-least-once: an alert is settled when the store has recorded that it was sent. If the process dies
    between sending and recording, the message is sent a second time. `delivered_to` prevents a channel that has the
    message from getting it again because another channel failed.

    Within one delivery a message gets three attempts, and the deliverer waits up to 30 s if a channel asks for it. Then
    the alert waits for its next delivery: 1 minute at first, 1 hour at most. After 30 deliveries, which take a day, it
    is given up. Age alone is not enough, because the program may have been down and clocks jump. If a channel refuses a
    digest because of its content, its alerts are sent one by one. Failures of channels are logged under
    ``outlast.notify`` and never raised.

    Args:
        store: The store that holds the outbox.
        channels: Where alerts go. Without channels, alerts are logged as warnings and settled.
        policy: Attempts and waits within one delivery.
        every: Seconds between two reads of the outbox.
        remind_after: Seconds after which a problem that persists is reported again.
        keep: Seconds to keep settled alerts.
        dashboard: URL of the dashboard, for links in messages; empty if unknown.
        lease: Seconds for which this deliverer has claimed alerts. After that, another one may claim them.

    Attributes:
        results: The alerts of the last delivery, each with its result.

    Raises:
        ConfigError: If two channels have the same name, or a duration is not valid.
    """

    def __init__(  # noqa: PLR0913  # its settings
        self,
        store: Alerts,
        channels: Sequence[Channel],
        *,
        policy: RetryPolicy = DELIVERY_POLICY,
        every: float | timedelta = 1.0,
        remind_after: float | timedelta = timedelta(days=7),
        keep: float | timedelta = timedelta(days=30),
        lease: float | timedelta = 120.0,
        dashboard: str = "",
    ) -> None:
        self.store, self.targets = store, AlertTargets(tuple(channels), dashboard, policy)
        self.every = check_seconds("every", every)
        self.remind_after = check_seconds("remind_after", remind_after)
        self.keep = check_seconds("keep", keep)
        self.lease = check_seconds("lease", lease)
        names = [channel.name for channel in self.channels]
        for name in names:
            if names.count(name) > 1:
                raise ConfigError(
                    f"two channels are named {name}; give each channel a unique name, or one of them gets no alerts"
                )
        self.results: list[tuple[Alert, AlertResult]] = []
        self._unsettled: list[AlertResult] = []
        self._unsettled_until = 0.0
        self._delivery_lock = threading.Lock()
        self._awake, self._stopping = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self._store_error_logged_at: float | None = None
        self._maintenance_at = -math.inf

    @property
    def channels(self) -> tuple[Channel, ...]:
        """The channels."""
        return self.targets.channels

    @property
    def running(self) -> bool:
        """Whether the thread is running."""
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> None:
        """Start the thread. Does nothing if it is running."""
        if self.running:
            return
        self._thread = threading.Thread(target=self._run, args=(self._stopping,), name="outlast-alerts", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread. Waits up to 5 s for the message being sent; the other alerts stay in the outbox."""
        thread, self._thread = self._thread, None
        self._stopping.set()
        self._awake.set()
        if thread is not None and thread is not threading.current_thread():
            thread.join(_STOP)
            if thread.is_alive():
                log_line(logging.WARNING, "an alert was still being sent at the stop; it may be sent a second time")
        self._stopping = threading.Event()

    def wake(self) -> None:
        """Make the thread read the outbox now."""
        self._awake.set()

    def deliver(self) -> int:
        """Make one delivery: claim the alerts that are due, send them and record the results.

        The first call, and then one call per minute, also creates the reminders that are due and removes old alerts.

        Returns:
            The number of alerts claimed.

        Raises:
            Exception: Any error of the store. The next delivery records what was sent before the error.
            KeyboardInterrupt: On Ctrl-C in the main thread. What was sent before is recorded.
            SystemExit: If a signal or a channel ends the program. What was sent before is recorded.
        """
        with self._delivery_lock:
            self._run_maintenance()
            self._settle()
            alerts = self.store.claim_alerts(_BATCH, self.lease)
            self.results = []
            if alerts:
                self._unsettled_until = clock.monotonic() + self.lease
                if self.channels:
                    self._send(alerts)
                else:
                    self._unsettled = _log_alerts(alerts, self.targets.dashboard)
                self.results = list(zip(alerts, self._unsettled, strict=True))
                self._settle()
            return len(alerts)

    def _run_maintenance(self) -> None:
        """Create reminders and remove old alerts. If that fails, alerts are still delivered."""
        if clock.monotonic() < self._maintenance_at:
            return
        self._maintenance_at = clock.monotonic() + _MAINTENANCE_EVERY
        try:
            self.store.remind_alerts(self.remind_after)
        except Exception as error:  # noqa: BLE001  # see above
            self._log_store_error("could not create reminders, retrying", error)
        try:
            self.store.prune_alerts(self.keep)
        except Exception as error:  # noqa: BLE001  # see above
            self._log_store_error("could not remove old alerts, retrying", error)

    def _settle(self) -> None:
        """Record the results of the last delivery, including those that the store could not take before."""
        if not self._unsettled:
            return
        try:
            self.store.settle_alerts(self._unsettled)
        except Exception:
            if clock.monotonic() >= self._unsettled_until:
                self._unsettled = []  # the lease has expired, so the alerts are due again
            raise
        self._unsettled = []

    def _send(self, alerts: Sequence[Alert]) -> None:
        until = clock.monotonic() + self.lease * _SENDING_SHARE
        queues = [
            ChannelQueue(
                each,
                [alert for alert in alerts if each.name not in alert.delivered_to],
                self.targets.policy,
                until,
                dashboard=self.targets.dashboard,
            )
            for each in self.channels
        ]
        try:
            send_queues(queues, self._stopping.is_set)
        except BaseException:  # the program ends: record what was sent, so that it is not sent again
            self._unsettled = [self._result(alert, queues) for alert in alerts]
            with suppress(Exception):
                self._settle()
            raise
        self._unsettled = [self._result(alert, queues) for alert in alerts]

    def _result(self, alert: Alert, queues: Sequence[ChannelQueue]) -> AlertResult:
        new = [queue.channel.name for queue in queues if alert.id in queue.sent]
        delivered_to = (*alert.delivered_to, *new)
        failures = {queue.channel.name: queue.failed[alert.id] for queue in queues if alert.id in queue.failed}
        if all(queue.channel.name in delivered_to for queue in queues):
            return AlertResult(alert.id, alert.epoch, delivered_to, None)
        if not failures:  # stopped before it was tried
            return AlertResult(alert.id, alert.epoch, delivered_to, 0.0)
        error = "; ".join(f"{name}: {failure}" for name, failure in failures.items())[:_ERROR_LIMIT]
        if alert.deliveries < GIVE_UP_DELIVERIES or clock.now() - alert.created_at.timestamp() < GIVE_UP_AFTER:
            return AlertResult(alert.id, alert.epoch, delivered_to, _next_delay(alert, failures.values()), error)
        for name, failure in failures.items():
            what = f"{name}: alert {alert.id} ({alert.key}) was given up after {alert.deliveries} deliveries"
            log_failure(logging.ERROR, what, failure, channel=name, alert_id=alert.id, key=alert.key)
        return AlertResult(alert.id, alert.epoch, delivered_to, None, error)

    def _run(self, stopping: threading.Event) -> None:
        while not stopping.is_set():
            self._awake.clear()
            claimed = 0
            try:
                claimed = self.deliver()
            except BaseException as error:  # noqa: BLE001  # nothing ends the thread
                self._log_store_error("could not read alerts from the store, retrying", error)
            if not claimed and not stopping.is_set():  # otherwise the next alert with the same key may be due
                self._awake.wait(self.every)

    def _log_store_error(self, what: str, error: BaseException) -> None:
        """Log that the store fails, at most once per minute."""
        now = clock.monotonic()
        if self._store_error_logged_at is None or now - self._store_error_logged_at >= _LOG_EVERY:
            self._store_error_logged_at = now
            log_failure(logging.ERROR, what, classify(error))


def _next_delay(alert: Alert, failures: Iterable[Failure]) -> float:
    """Return the seconds until the next delivery: they double each time, and are at least what a channel asked for."""
    own = FIRST_WAIT * 2.0 ** min(max(alert.deliveries - 1, 0), 10)
    return min(LONGEST_WAIT, max([own, *(failure.retry_after or 0.0 for failure in failures)]))


def _log_alerts(alerts: Sequence[Alert], dashboard: str) -> list[AlertResult]:
    """Log alerts, because there is no channel."""
    for message, (alert,) in compose(alerts, digest_at=len(alerts) + 2, dashboard=dashboard):
        log_line(logging.WARNING, "alert: %s", message.title, alert_id=alert.id, key=alert.key, text=message.text)
    return [AlertResult(alert.id, alert.epoch, (*alert.delivered_to, LOG_CHANNEL), None) for alert in alerts]
