SELECT id, at, who, action, subject, detail, reason
FROM outlast.audit_log
WHERE (%(subject)s::text IS NULL OR subject = %(subject)s::text)
    AND (%(action)s::text IS NULL OR action = %(action)s::text)
    AND (%(before)s::bigint IS NULL OR id < %(before)s::bigint)
ORDER BY id DESC LIMIT %(limit)s
