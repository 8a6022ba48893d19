DELETE FROM holdfast.sources WHERE id = ANY (%(ids)s::bigint[]) RETURNING id
