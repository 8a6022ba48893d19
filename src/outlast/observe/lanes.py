"""One delivery, channel by channel: each has a lane of its own, and one that waits for its retry holds up no other."""

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence

from outlast import clock
from outlast.classify import classify
from outlast.decide.policy import RetryPolicy
from outlast.failure import Category, Failure
from outlast.observe.channels import Channel
from outlast.observe.logs import tell_failure
from outlast.observe.messages import compose
from outlast.ports.source_rows import Alert
from outlast.record.tracebacks import span

__all__ = ["HINT_LIMIT", "Lane", "send_all"]

HINT_LIMIT = 30.0
"""Seconds that a channel may ask to wait within one delivery; who asks for more is left for a later one."""
_STEP = 0.5  # seconds of a wait after which is looked whether it is to end
# A message may be refused for what it says; every other failure is the channel's, and the next message would fail too.
_MESSAGES_OWN = {Category.INVALID_PARAMETERS, Category.DATA, Category.UNKNOWN}


class Lane:
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
            if _ends_the_program(error):
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
            what = f"{name}: try {self._tries} of {self.policy.max_attempts} failed, again in {span(wait)}"
            tell_failure(logging.WARNING, what, failure, channel=name, attempt=self._tries, delay=wait)
        elif failure.category in _MESSAGES_OWN and len(self._waiting[0][1]) > 1:
            self._take_apart(failure)
        else:
            self._give_up(failure)

    def _take_apart(self, failure: Failure) -> None:
        """Go on with the alerts of a digest one by one, so that the one which is refused takes no other with it."""
        alerts = self._waiting[0][1]
        what = f"{self.channel.name}: a digest was refused, its {len(alerts)} alerts are sent one by one"
        tell_failure(logging.WARNING, what, failure, channel=self.channel.name, attempt=self._tries)
        self._next()
        self._waiting.extendleft(reversed(compose(alerts, digest_at=len(alerts) + 1)))

    def close(self) -> None:
        """Begin no further try: what has failed is given up, what had no turn is left as it was."""
        if self._last is not None:
            self._give_up(self._last)

    def _give_up(self, failure: Failure) -> None:
        name, times = self.channel.name, "once" if self._tries == 1 else f"{self._tries} times"
        what = f"{name}: a notification was not delivered, tried {times}"
        tell_failure(logging.ERROR, what, failure, channel=name, attempt=self._tries)
        alone = failure.category in _MESSAGES_OWN
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


def _ends_the_program(error: BaseException) -> bool:
    """Tell Ctrl-C and the end that a signal asks for, which come in the main thread alone, from a channel's trouble."""
    asked = isinstance(error, KeyboardInterrupt | SystemExit)
    return asked and threading.current_thread() is threading.main_thread()


def send_all(lanes: Sequence[Lane], stopping: Callable[[], bool]) -> None:
    """Send what the lanes hold, whichever is due first: to the end, or until time is over or it is to stop."""
    while waiting := [lane for lane in lanes if lane.open]:
        lane = min(waiting, key=lambda each: each.due)
        while not stopping() and (left := lane.due - clock.monotonic()) > 0:
            clock.sleep(min(left, _STEP))
        if stopping() or clock.monotonic() >= lane.until:
            break
        lane.step()
    for lane in lanes:
        lane.close()
