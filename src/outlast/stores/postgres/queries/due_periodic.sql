SELECT name, next_run_at FROM outlast.periodic WHERE next_run_at <= now() AND name = ANY (%(names)s::text[]) ORDER BY name
