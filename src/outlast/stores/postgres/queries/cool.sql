-- The longer of the two stays. Answers that ask for too long count once while a cooldown runs, unless they are a probe's.
INSERT INTO outlast.cooldowns AS known (resource, until, reason, capped)
VALUES (%(resource)s, now() + make_interval(secs => %(seconds)s), %(reason)s, %(capped)s)
ON CONFLICT (resource) DO UPDATE
SET until = greatest(known.until, excluded.until),
    reason = CASE WHEN excluded.until > known.until THEN excluded.reason ELSE known.reason END,
    capped = CASE
        WHEN excluded.capped = 0 THEN 0
        WHEN known.probing OR known.until <= now() THEN known.capped + 1
        ELSE greatest(known.capped, 1)
    END,
    probing = false
RETURNING capped
