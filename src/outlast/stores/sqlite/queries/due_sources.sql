-- The expressions are those of the indexes: two ranges, and no row is looked at that is not given.
SELECT id FROM sources INDEXED BY sources_due
WHERE profile = :profile AND state <> 'disabled' AND max(next_poll_at, coalesce(not_before, 0)) <= :now
UNION ALL
SELECT id FROM sources INDEXED BY sources_probed
WHERE profile = :profile AND state = 'disabled' AND disabled_by = 'rule' AND coalesce(not_before, 0) <= :now
