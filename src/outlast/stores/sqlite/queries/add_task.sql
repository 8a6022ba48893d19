-- One task. One that would be due now waits while its resource cools down; a taken unique key changes nothing and returns no
-- row.
INSERT INTO task_queue
    (task_type, queue, priority, parameters, resource, unique_key, next_run_after, expires_at, created_at, updated_at)
VALUES (
    :task_type, :queue, :priority, :parameters, :resource, :unique_key,
    CASE WHEN :due > :now THEN :due ELSE max(:due, coalesce((SELECT until FROM cooldowns WHERE resource = :resource), 0)) END,
    :expires_at, :now, :now
)
ON CONFLICT (task_type, unique_key) WHERE unique_key IS NOT NULL AND status IN ('QUEUED', 'RUNNING', 'PARKED')
DO NOTHING
RETURNING id
