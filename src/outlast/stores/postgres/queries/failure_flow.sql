-- The flow, and the deltas that are not in it yet.
SELECT fingerprint, to_timestamp(floor(extract(epoch FROM at) / %(step)s) * %(step)s) AS begin, event, error_category,
    sum(n)::bigint
FROM (
    SELECT fingerprint, at, event, n FROM outlast.failure_flow
    WHERE fingerprint = ANY (%(fingerprints)s::text[]) AND span IN (10, 600)
        AND at >= to_timestamp(floor((extract(epoch FROM now()) - %(window)s) / %(step)s) * %(step)s)
    UNION ALL
    SELECT fingerprint, at, event, n FROM outlast.task_flow
    WHERE fingerprint = ANY (%(fingerprints)s::text[]) AND span = 0 AND fingerprint <> ''
        AND event IN (--failures--)
        AND at >= to_timestamp(floor((extract(epoch FROM now()) - %(window)s) / %(step)s) * %(step)s)
) AS flow
JOIN outlast.failure_groups USING (fingerprint)
GROUP BY fingerprint, begin, event, error_category
ORDER BY begin, event
