-- The time that had come is the fence: whoever is second changes nothing.
UPDATE outlast.periodic SET next_run_at = now() + make_interval(secs => %(seconds)s), last_run_at = now()
WHERE name = %(name)s AND next_run_at = %(due)s
