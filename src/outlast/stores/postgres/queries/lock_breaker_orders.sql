-- One order after the other: who asks for those behind a number misses none that came in between.
LOCK TABLE outlast.breaker_orders IN SHARE ROW EXCLUSIVE MODE
