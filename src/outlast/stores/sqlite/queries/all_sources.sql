-- What may be polled, whatever its schedule.
SELECT id FROM sources INDEXED BY sources_due
WHERE profile = :profile AND state <> 'disabled' AND coalesce(not_before, 0) <= :now
UNION ALL
SELECT id FROM sources INDEXED BY sources_probed
WHERE profile = :profile AND state = 'disabled' AND disabled_by = 'rule' AND coalesce(not_before, 0) <= :now
