SELECT nextval('outlast.task_queue_id_seq') FROM generate_series(1, %(count)s)
