-- name: add_audit_entry
-- Records a manual action; entries are never changed.
INSERT INTO {schema}audit_log (who, action, subject, detail, reason)
VALUES (%(who)s, %(action)s, %(subject)s, %(detail)s, %(reason)s)
RETURNING id

-- name: list_audit_entries
-- One statement for all filters; it is planned for each call, so it uses the index of the given one.
SELECT id, at, who, action, subject, detail, reason
FROM {schema}audit_log
WHERE (%(subject)s::text IS NULL OR subject = %(subject)s::text)
    AND (%(action)s::text IS NULL OR action = %(action)s::text)
    AND (%(before)s::bigint IS NULL OR id < %(before)s::bigint)
ORDER BY id DESC LIMIT %(limit)s
