-- The same sources that any_due looks for. By an array of numbers the planner goes to the primary key, however many it fears.
WITH due AS MATERIALIZED (
    SELECT id FROM outlast.sources
    WHERE (
        profile = %(profile)s AND state <> 'disabled'
            AND greatest(next_poll_at, not_before) <= CASE WHEN %(everything)s THEN 'infinity' ELSE now() END
            AND (not_before IS NULL OR not_before <= now())
    ) OR (
        profile = %(profile)s AND state = 'disabled' AND disabled_by = 'rule'
            AND coalesce(not_before, '-infinity') <= now()
    )
    ORDER BY id
    FOR UPDATE
)
UPDATE outlast.sources SET cycle = %(cycle)s, outcome = NULL, lease_owner = NULL, leased_until = NULL
WHERE id = ANY (ARRAY(SELECT due.id FROM due))
