-- What a COPY cannot do: tell the books, and whoever waits.
WITH told AS (
    INSERT INTO outlast.task_flow (event, n) VALUES ('enqueued', %(count)s)
)
SELECT pg_notify('outlast_' || 'outlast.task_queue'::regclass::oid, '')
