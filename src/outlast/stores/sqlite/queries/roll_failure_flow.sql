INSERT INTO failure_flow (fingerprint, span, at, event, n)
SELECT fingerprint, :into, at / (:into * 1000) * (:into * 1000), event, sum(n)
FROM failure_flow INDEXED BY failure_flow_age WHERE span = :span AND at <= :bound GROUP BY fingerprint, 3, event
ON CONFLICT DO UPDATE SET n = n + excluded.n
