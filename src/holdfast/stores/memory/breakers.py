"""Breakers in memory, as processes tell of them and as people order them."""

from collections.abc import Sequence

from holdfast import clock
from holdfast.decide.breaker import BY_HAND, ELSEWHERE
from holdfast.ports.read_rows import BreakerOpening, BreakerOrder, BreakerRow
from holdfast.ports.reads import SILENT_AFTER
from holdfast.stores.memory.book import Book, Ordered, Told, moment, moment_or_none

__all__ = ["MemoryBreakers", "known_breakers"]


class MemoryBreakers:
    """The duty `Breakers`."""

    book: Book

    def tell_breakers(
        self, process: str, rows: Sequence[tuple[str, str, float | None, str]], *, leased: bool = False
    ) -> None:
        """Write how the breakers of a process stand."""
        with self.book.lock:
            now = clock.now()
            if leased and process not in self.book.leases:
                return
            for resource, state, seconds, reason in rows:
                known = self.book.breakers.get((resource, process))
                before = "" if known is None else known.before if known.state == state else known.state
                until = None if seconds is None else now + seconds
                fresh = Told(resource, process, state, before, until, reason, leased, now)
                self.book.breakers[resource, process] = fresh

    def forget_breakers(self, process: str) -> None:
        """Forget a process that ends."""
        with self.book.lock:
            for key in [key for key in self.book.breakers if key[1] == process]:
                del self.book.breakers[key]

    def breakers(self) -> list[BreakerRow]:
        """Return them by resource and process."""
        with self.book.lock:
            orders = {each.resource: each for each in self._orders()}
            rows = [_row(each, orders.get(each.resource)) for each in known_breakers(self.book)]
            told = {row.resource for row in rows}
            rows += [_ordered(each) for each in orders.values() if each.resource not in told]
        return sorted(rows, key=lambda row: (row.resource, row.process))

    def order_breaker(self, resource: str, state: str, seconds: float | None = None) -> BreakerOrder:
        """Have the breakers of a resource opened or closed in all processes."""
        with self.book.lock:
            now, number = clock.now(), next(self.book.order_numbers)
            until = None if seconds is None else now + seconds
            self.book.orders[resource] = Ordered(number, resource, state, until, now)
            return BreakerOrder(number, resource, state, seconds)

    def breaker_orders(self, after: int) -> list[BreakerOrder]:
        """Return the orders whose number is larger."""
        with self.book.lock:
            now = clock.now()
            return [
                BreakerOrder(each.number, each.resource, each.state, None if each.until is None else each.until - now)
                for each in sorted(self._orders())
                if each.number > after
            ]

    def opened_breakers(self, process: str, resources: Sequence[str]) -> list[BreakerOpening]:
        """Return which of some resources other processes leave alone by their own judgement."""
        with self.book.lock:
            now, longest = clock.now(), dict[str, BreakerOpening]()
            for told in self.book.breakers.values():
                if told.process == process or told.resource not in resources or not self._is_judged_open(told, now):
                    continue
                opening = BreakerOpening(told.resource, told.process, (told.until or now) - now, told.reason)
                known = longest.get(told.resource, opening)
                longest[told.resource] = max(known, opening, key=lambda each: each.seconds)
            return [longest[name] for name in sorted(longest)]

    def _is_judged_open(self, told: Told, now: float) -> bool:
        """Tell whether a process leaves it alone by its own judgement, which nobody has overruled since."""
        if told.state != "open" or told.until is None or told.until <= now:
            return False
        if told.reason == BY_HAND or told.reason.startswith(ELSEWHERE):
            return False
        order = self.book.orders.get(told.resource)
        return order is None or order.state != "closed" or order.ordered_at < told.updated_at

    def _orders(self) -> list[Ordered]:
        now = clock.now()
        return [each for each in self.book.orders.values() if each.until is None or each.until > now]


def known_breakers(book: Book) -> list[Told]:
    """Return those that are told of by processes that are there, as far as that is known."""
    heard = clock.now() - SILENT_AFTER
    return [
        each
        for each in book.breakers.values()
        if (each.process in book.leases if each.is_worker else each.updated_at >= heard)
    ]


def _row(told: Told, order: Ordered | None) -> BreakerRow:
    return BreakerRow(
        resource=told.resource,
        process=told.process,
        state=told.state,
        until=moment_or_none(told.until),
        reason=told.reason,
        order=None if order is None else order.state,
        updated_at=moment(told.updated_at),
    )


def _ordered(order: Ordered) -> BreakerRow:
    until, at = moment_or_none(order.until), moment(order.ordered_at)
    return BreakerRow(order.resource, "", order.state, until, "", order.state, at)
