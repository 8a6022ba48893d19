-- Whoever waited for the row's lock finds it held and changes nothing; the second half sees the row as it was before, so a
-- capped cooldown says no there, over or not.
WITH mine AS (
    UPDATE outlast.cooldowns SET until = now() + make_interval(secs => %(hold)s), probing = true
    WHERE resource = %(resource)s AND capped > 0 AND until <= now()
    RETURNING resource
)
SELECT EXISTS (SELECT FROM mine) OR NOT EXISTS (
    SELECT FROM outlast.cooldowns WHERE resource = %(resource)s AND (until > now() OR capped > 0)
)
