INSERT INTO outlast.replays (which, canary, rate, who, reason, total, newest, bound, cursor)
VALUES (%(which)s, %(canary)s, %(rate)s, %(who)s, %(reason)s, %(total)s, %(newest)s, %(newest)s, %(cursor)s)
RETURNING --replay--
