(%(ids)s::bigint[] IS NULL OR id = ANY (%(ids)s::bigint[]))
    AND (%(task_type)s::text IS NULL OR task_type = %(task_type)s::text)
    AND (%(queue)s::text IS NULL OR queue = %(queue)s::text)
    AND (%(category)s::text IS NULL OR error_category = %(category)s::text)
    AND (%(reason)s::text IS NULL OR reason = %(reason)s::text)
    AND (%(fingerprint)s::text IS NULL OR fingerprint = %(fingerprint)s::text)
    AND (%(since)s::timestamptz IS NULL OR moved_to_dlq_at >= %(since)s::timestamptz)
    AND (%(until)s::timestamptz IS NULL OR moved_to_dlq_at < %(until)s::timestamptz)
    AND (
        %(text)s::text IS NULL OR strpos(lower(error_message), lower(%(text)s::text)) > 0
        OR strpos(lower(error_type), lower(%(text)s::text)) > 0
    )
    AND (%(pattern)s::text IS NULL OR error_message ~* %(pattern)s::text OR error_type ~* %(pattern)s::text)
