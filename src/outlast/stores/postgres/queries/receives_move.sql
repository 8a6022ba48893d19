-- Whether a file is being moved to these tables: nobody else may write to them then.
SELECT EXISTS (
    SELECT FROM pg_trigger WHERE tgrelid = to_regclass('outlast.task_queue') AND tgname = 'outlast_moving'
)
