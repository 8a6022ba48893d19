-- On from where the last batch ended: what it deleted is still in the way until it is vacuumed. A run that somebody has
-- taken up again meanwhile keeps what it has.
WITH old AS MATERIALIZED (
    SELECT id FROM outlast.job_runs
    WHERE id = %(id)s AND ended_at < now() - make_interval(secs => %(seconds)s)
    FOR UPDATE
),
batch AS MATERIALIZED (
    SELECT target.source_id FROM outlast.job_targets AS target
    WHERE target.run_id = (SELECT id FROM old) AND target.source_id >= coalesce(%(after)s::text, '')
        AND target.source_id IS DISTINCT FROM %(after)s::text
    ORDER BY target.source_id LIMIT %(batch)s
),
deleted AS (
    DELETE FROM outlast.job_targets AS target USING batch
    WHERE target.run_id = %(id)s AND target.source_id = batch.source_id
    RETURNING target.source_id
)
SELECT count(*), max(source_id) FROM deleted
