DELETE FROM outlast.sources WHERE id = ANY (%(ids)s::bigint[]) RETURNING id
