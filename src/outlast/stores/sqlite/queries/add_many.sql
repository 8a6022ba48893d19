-- Many tasks that differ in nothing but their arguments, in one step: a step per row would bind every column anew, and give
-- the interpreter lock away and fetch it again each time.
INSERT INTO task_queue (task_type, queue, priority, parameters, next_run_after, expires_at, created_at, updated_at)
SELECT :task_type, :queue, :priority, value, :due, :expires_at, :now, :now FROM json_each(:parameters)
