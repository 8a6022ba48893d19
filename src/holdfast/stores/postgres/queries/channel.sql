SELECT 'holdfast_' || 'holdfast.task_queue'::regclass::oid
