WITH letter AS MATERIALIZED (
    SELECT known.id, task.id AS task_id, known.parameters = %(before)s AS same
    FROM outlast.dead_letter_queue AS known
    JOIN outlast.task_queue AS task ON task.id = known.original_task_id AND task.status || '' = 'FAILED'
    WHERE known.id = %(id)s
    FOR UPDATE
),
changed AS (
    UPDATE outlast.dead_letter_queue AS known SET parameters = %(after)s
    FROM letter WHERE known.id = letter.id AND same
),
task AS (
    UPDATE outlast.task_queue AS known SET parameters = %(after)s, updated_at = now()
    FROM letter WHERE known.id = letter.task_id AND same
),
edit AS (
    INSERT INTO outlast.payload_edits (task_id, before, after, patch, who, reason)
    SELECT task_id, %(before)s, %(after)s, %(patch)s, %(who)s, %(reason)s FROM letter WHERE same
)
SELECT CASE WHEN same THEN 'edited' ELSE 'changed' END FROM letter
