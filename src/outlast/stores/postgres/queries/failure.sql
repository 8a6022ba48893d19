SELECT --group--
FROM outlast.failure_groups AS known
--recent--
WHERE known.fingerprint = %(fingerprint)s
