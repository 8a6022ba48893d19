-- The numbers themselves are not returned: they follow each other, unless somebody else draws at the same time.
SELECT min(drawn), max(drawn)
FROM (SELECT nextval('outlast.task_queue_id_seq') AS drawn FROM generate_series(1, %(count)s)) AS numbers
