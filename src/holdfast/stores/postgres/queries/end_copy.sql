-- What a COPY cannot do: tell the books, and whoever waits.
WITH told AS (
    INSERT INTO holdfast.task_flow (event, n) VALUES ('enqueued', %(count)s)
)
SELECT pg_notify('holdfast_' || 'holdfast.task_queue'::regclass::oid, '')
