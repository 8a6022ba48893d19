-- name: add_audit_entry
-- Records a manual action; entries are never changed.
INSERT INTO audit_log (at, who, action, subject, detail, reason) VALUES (:now, :who, :action, :subject, :detail, :reason)
RETURNING id

-- part: audit_columns
id, at, who, action, subject, detail, reason

-- part: audit_filter
WHERE id < :before AND (:subject IS NULL OR subject = :subject) AND (:action IS NULL OR action = :action)

-- name: list_audit_entries
-- Newest first along the primary key, so that the scan can stop at the limit.
SELECT {audit_columns}
FROM audit_log NOT INDEXED
{audit_filter}
ORDER BY id DESC LIMIT :limit

-- name: list_audit_entries_by_subject
-- The same along the index of subjects, also if an action is given.
SELECT {audit_columns}
FROM audit_log INDEXED BY audit_log_subject
{audit_filter} AND subject = :subject
ORDER BY id DESC LIMIT :limit

-- name: list_audit_entries_by_action
-- The same along the index of actions.
SELECT {audit_columns}
FROM audit_log INDEXED BY audit_log_action
{audit_filter} AND action = :action
ORDER BY id DESC LIMIT :limit

-- name: add_chart_mark
-- The caller has deleted the old ones.
INSERT INTO chart_marks (at, kind, text, who) VALUES (:now, :kind, :text, :who) RETURNING id

-- name: prune_chart_marks
-- The table is small: people add its rows.
DELETE FROM chart_marks WHERE at < :now - :age

-- name: list_chart_marks
-- Newest first along the primary key.
SELECT id, at, kind, text, who FROM chart_marks WHERE at >= :now - :window ORDER BY id DESC LIMIT :limit
