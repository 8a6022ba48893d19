SELECT --group--
FROM holdfast.failure_groups AS known
--recent--
WHERE known.fingerprint = %(fingerprint)s
