-- Whether a file is being moved to these tables: nobody else may write to them then.
SELECT EXISTS (
    SELECT FROM pg_trigger WHERE tgrelid = to_regclass('holdfast.task_queue') AND tgname = 'holdfast_moving'
)
