SELECT state FROM alerts INDEXED BY alerts_key WHERE key = :key ORDER BY id DESC LIMIT 1
