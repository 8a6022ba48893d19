UPDATE outlast.replays
SET state = %(state)s, stopped_by = %(why)s, ended_at = now(), updated_at = now(), lease_owner = NULL, leased_until = NULL
WHERE id = %(id)s AND state = 'running' AND (%(epoch)s::integer IS NULL OR epoch = %(epoch)s::integer)
