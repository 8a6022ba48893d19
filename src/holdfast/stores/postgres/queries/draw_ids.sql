SELECT nextval('holdfast.task_queue_id_seq') FROM generate_series(1, %(count)s)
