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

-- name: add_chart_mark
-- The caller has deleted the old ones.
INSERT INTO {schema}chart_marks (kind, text, who) VALUES (%(kind)s, %(text)s, %(who)s) RETURNING id

-- name: prune_chart_marks
-- The table is small: people add its rows.
DELETE FROM {schema}chart_marks WHERE at < now() - %(age)s

-- name: list_chart_marks
-- Newest first along the primary key.
SELECT id, at, kind, text, who FROM {schema}chart_marks
WHERE at >= now() - %(window)s ORDER BY id DESC LIMIT %(limit)s
