COPY outlast.task_queue (id, task_type, queue, priority, booked, parameters) FROM STDIN
