-- After the lock: what others have taken is seen, and the clock has moved on while it was waited for. Slots of tasks that do
-- not run by that claim any more are deleted. Tasks are looked up one by one: there are as few as the limits allow.
WITH live AS MATERIALIZED (
    SELECT slot.task_id, slot.epoch, slot.resource,
        (
            SELECT task.status || '' = 'RUNNING' AND task.lease_epoch = slot.epoch
            FROM outlast.task_queue AS task WHERE task.id = slot.task_id
        ) IS TRUE AS runs
    FROM outlast.resource_slots AS slot
    WHERE slot.resource = ANY (%(resources)s::text[])
),
gone AS (
    DELETE FROM outlast.resource_slots AS slot USING live WHERE slot.task_id = live.task_id AND NOT live.runs
)
SELECT extract(epoch FROM clock_timestamp())::double precision, live.task_id, live.epoch, live.resource
FROM (SELECT) AS one LEFT JOIN live ON live.runs
