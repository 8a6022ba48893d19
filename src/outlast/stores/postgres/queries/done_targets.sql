SELECT source_id FROM outlast.job_targets
WHERE run_id = %(run_id)s AND source_id = ANY (%(ids)s::text[]) AND status IN ('success', 'skipped')
