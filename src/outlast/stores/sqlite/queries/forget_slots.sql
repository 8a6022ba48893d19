-- Slots of tasks that do not run by that claim any more.
DELETE FROM resource_slots
WHERE resource = :resource AND NOT EXISTS (
    SELECT 1 FROM task_queue
    WHERE task_queue.id = resource_slots.task_id AND task_queue.lease_epoch = resource_slots.epoch
        AND task_queue.status = 'RUNNING'
)
