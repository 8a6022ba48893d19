DELETE FROM outlast.source_polls WHERE source_id = ANY (%(ids)s::bigint[])
