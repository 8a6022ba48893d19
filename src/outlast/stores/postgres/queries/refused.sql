-- Those that somebody else has by now. One with our epoch that no longer runs was settled by us: an answer got lost.
SELECT given.id
FROM unnest(%(ids)s::bigint[], %(epochs)s::integer[]) WITH ORDINALITY AS given (id, epoch, place)
LEFT JOIN outlast.task_queue AS task ON task.id = given.id
WHERE task.lease_epoch IS DISTINCT FROM given.epoch
ORDER BY given.place
