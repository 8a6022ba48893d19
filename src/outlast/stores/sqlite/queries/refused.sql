-- Those that somebody else has by now. One with our epoch that no longer runs was settled by us: an answer got lost.
SELECT settled.id
FROM (SELECT value ->> 0 AS id, value ->> 1 AS epoch FROM json_each(:done)) AS settled
LEFT JOIN task_queue ON task_queue.id = settled.id
WHERE task_queue.lease_epoch IS NOT settled.epoch
