-- A batch of a walk: how many were looked at, how many fit, the first and the last of those, and where the batch ends.
SELECT count(*), coalesce(sum(fits), 0), min(CASE WHEN fits THEN id END), max(CASE WHEN fits THEN id END), max(id)
FROM (--walk-- LIMIT :batch)
