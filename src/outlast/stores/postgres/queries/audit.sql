INSERT INTO outlast.audit_log (who, action, subject, detail, reason)
VALUES (%(who)s, %(action)s, %(subject)s, %(detail)s, %(reason)s)
RETURNING id
