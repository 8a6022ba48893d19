SELECT max(at) FROM (
    SELECT at FROM failure_flow INDEXED BY failure_flow_age WHERE span = :span AND at < :before ORDER BY at LIMIT :batch
)
