SELECT fingerprint, last_seen FROM failure_groups INDEXED BY failure_groups_latest
WHERE (last_seen, fingerprint) > (:seen, :after) AND last_seen < :before
ORDER BY last_seen, fingerprint LIMIT :batch
