INSERT INTO audit_log (at, who, action, subject, detail, reason) VALUES (:now, :who, :action, :subject, :detail, :reason)
