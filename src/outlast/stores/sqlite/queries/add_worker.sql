INSERT INTO workers
    (id, name, host, pid, queues, concurrency, state, started_at, heartbeat_at, expires_at, schema_version)
VALUES (:id, :name, :host, :pid, :queues, :concurrency, :state, :started_at, :heartbeat_at, :expires_at, :schema_version)
