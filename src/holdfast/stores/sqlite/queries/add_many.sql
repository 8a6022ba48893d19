-- Many plain tasks in one step: a step per row would give the interpreter lock away and fetch it again each time.
INSERT INTO task_queue (task_type, queue, priority, parameters, next_run_after, expires_at, created_at, updated_at)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, :now, :now FROM json_each(:tasks)
