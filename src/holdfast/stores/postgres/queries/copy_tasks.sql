COPY holdfast.task_queue (id, task_type, queue, priority, parameters) FROM STDIN
