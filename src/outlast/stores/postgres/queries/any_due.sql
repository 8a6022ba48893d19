-- The look of those who have nothing to do: the first entry of two ranges, and nothing is written. EXISTS would make the
-- planner hope for an early hit in the table.
SELECT (
    SELECT id FROM outlast.sources
    WHERE profile = %(profile)s AND state <> 'disabled'
        AND greatest(next_poll_at, not_before) <= CASE WHEN %(everything)s THEN 'infinity' ELSE now() END
        AND (not_before IS NULL OR not_before <= now())
    ORDER BY profile, greatest(next_poll_at, not_before) LIMIT 1
) IS NOT NULL OR (
    SELECT id FROM outlast.sources
    WHERE profile = %(profile)s AND state = 'disabled' AND disabled_by = 'rule'
        AND coalesce(not_before, '-infinity') <= now()
    ORDER BY profile, coalesce(not_before, '-infinity') LIMIT 1
) IS NOT NULL
