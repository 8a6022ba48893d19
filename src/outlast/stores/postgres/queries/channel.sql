SELECT 'outlast_' || 'outlast.task_queue'::regclass::oid
