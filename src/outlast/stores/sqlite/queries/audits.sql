SELECT id, at, who, action, subject, detail, reason
FROM audit_log --along--
WHERE id < :before AND (:subject IS NULL OR subject = :subject) AND (:action IS NULL OR action = :action) --by--
ORDER BY id DESC LIMIT :limit
